//! Styled text, if colours are wanted. Must not know where the text goes.

use anstyle::Style;

/// `text` in `style`, or plain if colours are not wanted.
pub(crate) fn styled(text: &str, style: Style, colour: bool) -> String {
    if colour { format!("{style}{text}{style:#}") } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_style_is_only_written_if_colours_are_wanted() {
        let bold = Style::new().bold();
        assert_eq!(styled("x", bold, false), "x");
        assert_eq!(styled("x", bold, true), "\u{1b}[1mx\u{1b}[0m");
    }
}
