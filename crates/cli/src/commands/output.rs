//! The options of every command that leaves a run: how it is printed and where it is stored. Prints and stores nothing.

use std::path::PathBuf;

use crate::args::Opt;

/// What was typed of them.
#[derive(Default)]
pub(crate) struct RunOutput {
    /// `None`: a table.
    pub(crate) format: Option<String>,
    pub(crate) out: Option<PathBuf>,
}

/// `--format`, one of these words, of which the first is the default.
pub(crate) const fn format<A: AsMut<RunOutput>>(
    words: &'static [&'static str],
    help: &'static str,
) -> Opt<A> {
    Opt::one_of(&["--format"], "FORMAT", words, help, |typed: &mut A, text| {
        typed.as_mut().format = Some(text.to_owned());
        Ok(())
    })
    .default(words[0])
}

/// `--out`, with what is in the directory.
pub(crate) const fn out<A: AsMut<RunOutput>>(help: &'static str) -> Opt<A> {
    Opt::path(&["--out"], "DIR", help, |typed: &mut A, text| {
        typed.as_mut().out = Some(text.into());
        Ok(())
    })
}
