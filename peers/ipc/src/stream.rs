//! Echo over a byte stream: a length of four bytes, then the payload, in a single write if the
//! kernel accepts it. Must not know the kind of stream.

use std::io::{ErrorKind, IoSlice, Read, Write};

use anyhow::{Context as _, Result, ensure};
use roundtrip_binder_driver::RawBytes;

use crate::peer::{Echo, MAX_LEN};

/// Both ends of one side, and a buffer for length and payload.
pub(crate) struct Stream<R, W> {
    input: R,
    output: W,
    buffer: Vec<u8>,
}

const HEADER: usize = 4;

impl<R: Read, W: Write> Stream<R, W> {
    pub(crate) fn new(input: R, output: W) -> Self {
        Stream { input, output, buffer: vec![0; HEADER + MAX_LEN] }
    }

    /// Echoes until the client closes the stream.
    pub(crate) fn serve(mut self) -> Result<()> {
        while let Some(len) = self.receive()? {
            self.output.write_all(&self.buffer[..HEADER + len]).context("write a reply")?;
        }
        Ok(())
    }

    /// Reads the next message into the buffer. Returns its length, or `None` at the end of the
    /// stream.
    fn receive(&mut self) -> Result<Option<usize>> {
        let mut have = 0;
        // Reads as much as is available, so that a short message takes one read.
        loop {
            let wanted = match self.buffer.first_chunk::<HEADER>() {
                Some(header) if have >= HEADER => HEADER + u32::from_le_bytes(*header) as usize,
                _ => HEADER,
            };
            ensure!(wanted <= self.buffer.len(), "a message of {wanted} bytes");
            if have >= HEADER && have == wanted {
                return Ok(Some(wanted - HEADER));
            }
            match self.input.read(&mut self.buffer[have..]) {
                Ok(0) if have == 0 => return Ok(None),
                Ok(0) => anyhow::bail!("the other side closed within a message"),
                Ok(count) => have += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error).context("read from the other side"),
            }
        }
    }
}

impl<R: Read, W: Write> Echo for Stream<R, W> {
    fn echo(&mut self, payload: &[u8], take: &mut dyn FnMut(RawBytes<'_>)) -> Result<()> {
        let header = (payload.len() as u32).to_le_bytes();
        let mut parts = [IoSlice::new(&header), IoSlice::new(payload)];
        let mut parts = &mut parts[..];
        while !parts.is_empty() {
            match self.output.write_vectored(parts) {
                Ok(written) => IoSlice::advance_slices(&mut parts, written),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error).context("write to the other side"),
            }
        }
        let len = self.receive()?.context("the server has exited")?;
        take((&self.buffer[HEADER..HEADER + len]).into());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn messages_of_all_lengths_are_echoed_and_a_truncated_message_is_an_error() {
        let (client, server) = UnixStream::pair().expect("a pair");
        let serving = std::thread::spawn(move || Stream::new(&server, &server).serve());
        let mut echo = Stream::new(client.try_clone().expect("a handle"), client);
        for len in [0, 1, 4, 5, 4096, MAX_LEN] {
            let payload: Vec<u8> = (0..len).map(|i| i as u8).collect();
            let mut same = false;
            echo.echo(&payload, &mut |reply| same = reply == payload).expect("an echo");
            assert!(same, "{len}");
        }
        drop(echo);
        serving.join().expect("no panic").expect("a clean end");

        let torn = Stream::new(&[9_u8, 0, 0, 0, 1][..], std::io::sink()).serve();
        assert!(torn.is_err_and(|error| error.to_string().contains("within a message")));
        let huge = Stream::new(&[255_u8; 8][..], std::io::sink()).serve();
        assert!(huge.is_err_and(|error| error.to_string().contains("a message of")));
    }
}
