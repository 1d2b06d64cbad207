//! Decompresses parts of files, within a size limit. Must not know the contents.

use std::io::Read;

use flate2::read::ZlibDecoder;
use ruzstd::decoding::StreamingDecoder;

/// The compression algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Zlib,
    Zstd,
}

/// The magic number of a zstd frame (RFC 8878).
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Decompresses a whole stream. `budget` is the number of bytes that the file's parts may still
/// expand to.
///
/// # Errors
/// A sentence that says why: the stream is damaged, or exceeds the budget.
pub(crate) fn unpack(method: Method, bytes: &[u8], budget: &mut usize) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    let most = *budget as u64 + 1;
    match method {
        Method::Zlib => ZlibDecoder::new(bytes).take(most).read_to_end(&mut out),
        Method::Zstd => {
            // trace-cmd omits the magic number of a frame.
            let magic: &[u8] = if bytes.starts_with(&ZSTD_MAGIC) { &[] } else { &ZSTD_MAGIC };
            let decoder = StreamingDecoder::new(magic.chain(bytes)).map_err(|error| error.to_string())?;
            decoder.take(most).read_to_end(&mut out)
        }
    }
    .map_err(|error| error.to_string())?;
    match budget.checked_sub(out.len()) {
        Some(left) => *budget = left,
        None => return Err("it expands to more than this program reads from one file".to_owned()),
    }
    Ok(out)
}
