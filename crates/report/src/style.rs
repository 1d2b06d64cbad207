//! Text in a style, where colour is wanted. Must not know where it is.

use anstyle::Style;

/// `text` in `style`, or bare where colour is not wanted.
pub(crate) fn styled(text: &str, style: Style, colour: bool) -> String {
    if colour { format!("{style}{text}{style:#}") } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_style_is_only_written_where_it_is_wanted() {
        let bold = Style::new().bold();
        assert_eq!(styled("x", bold, false), "x");
        assert_eq!(styled("x", bold, true), "\u{1b}[1mx\u{1b}[0m");
    }
}
