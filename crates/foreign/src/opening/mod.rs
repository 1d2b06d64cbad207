//! Opens what people have: a recording, a recording that is packed (gzip, xz, zstd, zip, `atrace
//! -z`), or the kernel's text in UTF-16. Finds the recording inside, without unpacking more than
//! the limits allow. Must not know what a recording contains.

mod archive;
mod chain;
mod input;
mod kind;
mod undone;
mod unknown;
mod unpacked;
mod utf16;
mod zstd;

use std::io::{BufRead, Read as _};

use crate::error::{Error, Result};
use crate::text;
pub(crate) use chain::failure;
use chain::{Chain, Layer};
pub(crate) use input::Source;
pub use input::{Input, Limits};
use kind::Kind;

/// How many bytes of a file tell its format.
const HEAD_BYTES: u64 = 1 << 16;

/// How much of a text is searched for events before it counts as another text. Pages have a viewer
/// of some megabytes before the events.
const SEARCHED_TEXT_BYTES: u64 = 1 << 20;
const SEARCHED_PAGE_BYTES: u64 = 1 << 24;

/// The format of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Perfetto,
    TraceCmd,
    Text,
}

/// A recording that was found in a file.
pub(crate) struct Opened<'a> {
    pub(crate) form: Form,
    /// The member's name, if the file is an archive.
    pub(crate) member: Option<String>,
    chain: Chain<'a>,
}

impl<'a> Opened<'a> {
    /// The recording's bytes from the start.
    pub(crate) fn reader(&self) -> Box<dyn BufRead + 'a> {
        self.chain.reader()
    }

    /// The recording's bytes in any order, and why the rest cannot be unpacked if it cannot.
    ///
    /// # Errors
    /// If they exceed the limits.
    pub(crate) fn source(&self) -> Result<(Source<'a>, Option<String>)> {
        self.chain.source()
    }

    /// What a text is, if it contains no events.
    pub(crate) fn unknown(&self) -> Error {
        let head = self.chain.head(HEAD_BYTES).unwrap_or_default();
        unknown::text(&head, self.chain.re_encoded())
    }
}

/// Finds the recording in a file.
///
/// # Errors
/// If there is none, if there are several, and if the file exceeds the limits.
pub(crate) fn open<'a>(input: Input<'a>, limits: &Limits) -> Result<Opened<'a>> {
    if input.length() > limits.file_bytes {
        let (has, most) = (input.length() >> 20, limits.file_bytes >> 20);
        return Err(Error::TooLarge {
            what: format!("it has {has} MiB, and at most {most} MiB are read: record for a shorter time"),
        });
    }
    let chain = Chain::new(input, *limits);
    match descend(chain, None)? {
        Found::Recording(opened) => Ok(opened),
        Found::Archive(chain) => archive::only_recording(&chain, limits),
    }
}

/// What is inside all the packings.
enum Found<'a> {
    Recording(Opened<'a>),
    Archive(Chain<'a>),
}

/// Goes through the packings of a file or of a member.
fn descend<'a>(mut chain: Chain<'a>, member: Option<&str>) -> Result<Found<'a>> {
    loop {
        let head = chain.head(HEAD_BYTES)?;
        let form = match kind::of(&head, chain.length()) {
            Kind::Packed(layer) => {
                chain.push(layer)?;
                continue;
            }
            Kind::Zlib { at } => {
                let undone = chain.undone(at)?;
                chain.push(Layer::Skip(at))?;
                if let Some(line_end) = undone {
                    chain.push(Layer::LineEnds(line_end))?;
                }
                chain.push(Layer::Zlib)?;
                continue;
            }
            Kind::Zip if chain.is_plain() && member.is_none() => return Ok(Found::Archive(chain)),
            Kind::Zip => {
                let what = "it is inside another file: unpack it, and give the recording in it".to_owned();
                return Err(Error::Unsupported { form: "zip archive", what });
            }
            Kind::Recording(form) => form,
            Kind::Other => return Err(unknown::binary(&head)),
        };
        return Ok(Found::Recording(Opened { form, member: member.map(str::to_owned), chain }));
    }
}

/// Whether this is a recording, as opposed to another file beside it.
fn is_recording(opened: &Opened<'_>) -> bool {
    let Form::Text = opened.form else { return true };
    let page = opened.chain.head(64).is_ok_and(|head| head.trim_ascii_start().starts_with(b"<"));
    let most = if page { SEARCHED_PAGE_BYTES } else { SEARCHED_TEXT_BYTES };
    text::has_events(opened.reader().take(most))
}

/// Whether a file contains recordings.
#[must_use]
pub fn holds_recording(input: Input<'_>, limits: &Limits) -> bool {
    match open(input, limits) {
        Ok(opened) => is_recording(&opened),
        Err(error) => matches!(error, Error::Several { .. }),
    }
}

#[cfg(test)]
mod tests;
