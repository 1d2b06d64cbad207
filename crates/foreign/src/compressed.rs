//! What tools compress, unpacked within a budget. Must not know what comes out.

use std::io::Read;

use flate2::read::ZlibDecoder;
use ruzstd::decoding::StreamingDecoder;

/// How something is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Zlib,
    Zstd,
}

/// What a frame of zstd begins with (RFC 8878).
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Unpacks a whole stream. `budget` is what may still come out of the file, in bytes.
///
/// # Errors
/// A sentence, for bytes that are damaged or become too many.
pub(crate) fn unpack(method: Method, bytes: &[u8], budget: &mut usize) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    let most = *budget as u64 + 1;
    match method {
        Method::Zlib => ZlibDecoder::new(bytes).take(most).read_to_end(&mut out),
        Method::Zstd => {
            // trace-cmd leaves the frame's first four bytes out.
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
