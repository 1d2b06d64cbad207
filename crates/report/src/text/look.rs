//! How text looks at its destination: with or without colours, and how wide. Must not know the
//! terminal.

use textwrap::{Options, WordSplitter};

/// The narrowest width to which text is wrapped, in columns.
pub const NARROWEST: usize = 40;

/// The most rows of a table on a terminal, where a report has to fit.
const ROWS: usize = 4;

/// The destination of a text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Look {
    /// Whether the destination shows colours.
    pub colour: bool,
    /// The width of lines in columns; `None` if unlimited.
    pub width: Option<usize>,
    /// Whether it is a terminal, where the last lines are seen first.
    pub is_terminal: bool,
}

impl Look {
    /// For files and other programs: no colours, and no line breaks.
    pub const PLAIN: Self = Self { colour: false, width: None, is_terminal: false };

    /// How many rows of a table are shown if others show `most`.
    #[must_use]
    pub fn rows(&self, most: usize) -> usize {
        if self.is_terminal { most.min(ROWS) } else { most }
    }

    /// Wraps long lines of `text` between words. Continuation lines are indented two columns more.
    #[must_use]
    pub fn fit(&self, text: String) -> String {
        let Some(width) = self.width.map(|width| width.max(NARROWEST)) else { return text };
        if text.lines().all(|line| textwrap::core::display_width(line) <= width) {
            return text;
        }
        let mut out = String::with_capacity(text.len() + text.len() / 8);
        for line in text.split_inclusive('\n') {
            let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
            let indent = line.len() - line.trim_start_matches(' ').len();
            let indent = " ".repeat((indent + 2).min(width / 2));
            let options = Options::new(width)
                .subsequent_indent(&indent)
                .break_words(false)
                .word_splitter(WordSplitter::NoHyphenation);
            out.push_str(&textwrap::fill(line, options));
            out.push_str(end);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_width_nothing_changes() {
        let text = "one line of many words\n\n  another\n".repeat(9);
        assert_eq!(Look::PLAIN.fit(text.clone()), text);
        assert_eq!(Look { colour: false, width: Some(40), is_terminal: false }.fit(text.clone()), text);
    }

    #[test]
    fn long_lines_are_broken_between_words_and_hang() {
        let look = Look { colour: false, width: Some(40), is_terminal: false };
        let text = "  beside a hog the application waits for the processor, and for the device\nshort\n";
        assert_eq!(
            look.fit(text.to_owned()),
            "  beside a hog the application waits for\n    the processor, and for the device\nshort\n"
        );
        let word = format!("/{}\n", "long".repeat(20));
        assert_eq!(look.fit(word.clone()), word, "no word is broken");
    }
}
