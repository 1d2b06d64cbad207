//! Finds the recording in a zip archive, such as a bug report. Members are looked at where they
//! are. Nothing is written.

use rawzip::{CompressionMethod, MAX_CENTRAL_DIRECTORY_RECORD_SIZE, ZipArchive, ZipLocator};

use super::chain::{Chain, Layer};
use super::{Found, Input, Limits, Opened, descend, is_recording};
use crate::error::{Error, Result};

const FORM: &str = "zip archive";

/// How many recordings an error names.
const NAMED: usize = 8;

/// The only recording of an archive.
///
/// # Errors
/// If there is none, or more than one, and if the archive is damaged.
pub(super) fn only_recording<'a>(chain: &Chain<'a>, limits: &Limits) -> Result<Opened<'a>> {
    let members = members(chain.input(), limits)?;
    let (mut found, mut names): (Option<Opened<'a>>, Vec<String>) = (None, Vec::new());
    let mut unread = None;
    for member in members {
        let Some(layer) = member.layer else {
            unread.get_or_insert(member);
            continue;
        };
        match descend(chain.member(member.place, layer), Some(&member.name)) {
            Ok(Found::Recording(opened)) if is_recording(&opened) => {
                names.push(member.name);
                found.get_or_insert(opened);
            }
            Err(error @ Error::TooLarge { .. }) => return Err(error),
            _ => {}
        }
        if names.len() > NAMED {
            break;
        }
    }
    match (found, unread) {
        (Some(opened), _) if names.len() == 1 => Ok(opened),
        (Some(_), _) => Err(Error::Several { form: FORM, names: names.join(", ") }),
        (None, Some(member)) => {
            let what = format!(
                "{} is encrypted, or packed in a way that this program cannot read: unpack it",
                member.name
            );
            Err(Error::Unsupported { form: FORM, what })
        }
        (None, None) => Err(Error::Unsupported { form: FORM, what: "it contains no recording".to_owned() }),
    }
}

struct Member {
    name: String,
    place: (u64, u64),
    /// Its packing, if it has one; `None` if it cannot be read.
    layer: Option<Option<Layer>>,
}

/// The files in an archive.
fn members(input: Input<'_>, limits: &Limits) -> Result<Vec<Member>> {
    let damaged = |error: rawzip::Error| Error::Unreadable { form: FORM, what: error.to_string() };
    let mut buffer = vec![0; MAX_CENTRAL_DIRECTORY_RECORD_SIZE];
    let archive: ZipArchive<Input<'_>> = ZipLocator::new()
        .locate_in_reader(input, &mut buffer, input.length())
        .map_err(|(_, error)| damaged(error))?;
    let mut members = Vec::new();
    let mut entries = archive.entries(&mut buffer);
    let mut seen = 0;
    while let Some(entry) = entries.next_entry().map_err(damaged)? {
        seen += 1;
        if seen > limits.members {
            let most = limits.members;
            let what = format!("it has more than {most} members: unpack it, and give the recording in it");
            return Err(Error::TooLarge { what });
        }
        if entry.is_dir() || entry.compressed_size_hint() == 0 {
            continue;
        }
        let layer = match entry.compression_method() {
            _ if entry.flags().is_encrypted() => None,
            CompressionMethod::STORE => Some(None),
            CompressionMethod::DEFLATE => Some(Some(Layer::Deflate)),
            CompressionMethod::ZSTD => Some(Some(Layer::Zstd)),
            CompressionMethod::XZ => Some(Some(Layer::Xz)),
            _ => None,
        };
        let name = String::from_utf8_lossy(entry.file_path().as_bytes()).into_owned();
        let place = archive.get_entry(entry.wayfinder()).map_err(damaged)?.compressed_data_range();
        members.push(Member { name, place, layer });
    }
    Ok(members)
}
