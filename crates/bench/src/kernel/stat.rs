//! A thread's or process's `stat` file (proc_pid_stat(5)). Must not know which fields matter.

use std::str::SplitWhitespace;

/// The name, which may contain anything, and the fields from the third on: the state.
pub(crate) fn split(stat: &str) -> Option<(&str, SplitWhitespace<'_>)> {
    let (head, fields) = stat.rsplit_once(')')?;
    Some((head.split_once('(')?.1, fields.split_whitespace()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_contain_parentheses_and_blanks() {
        let (name, mut fields) = split("7 (a (b) c) S 1 2\n").unwrap();
        assert_eq!((name, fields.next(), fields.next()), ("a (b) c", Some("S"), Some("1")));
        assert!(split("").is_none());
    }
}
