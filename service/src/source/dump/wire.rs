//! The socket of a dump connection and its packets.

use std::io;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_native_tls::TlsConnector;

use super::packet::{FrameError, Frames, frame};
use crate::halt::{Failure, Side};
use crate::tls;

/// A TCP or TLS stream.
pub(super) trait Socket: AsyncRead + AsyncWrite + Send + Sync + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Sync + Unpin> Socket for T {}

/// Why no packet could be read or written.
#[derive(Debug, thiserror::Error)]
pub(super) enum WireError {
    #[error("the source closed the connection")]
    Closed,
    #[error("connection to the source: {}", .0.kind())]
    Io(io::Error),
    #[error("connection to the source: {0}")]
    Frame(#[from] FrameError),
    #[error("TLS with the source: {0}")]
    Tls(native_tls::Error),
    #[error("the source sent bytes in clear where TLS was to begin")]
    ClearBytes,
}

impl From<WireError> for Failure {
    fn from(error: WireError) -> Self {
        Self::retry(Side::Source, tls::advice::explained(error.to_string()))
    }
}

pub(super) struct Wire<S = Box<dyn Socket>> {
    socket: S,
    frames: Frames,
    /// When bytes last arrived.
    heard: Instant,
}

impl Wire<TcpStream> {
    pub(super) fn new(socket: TcpStream) -> Self {
        Self { socket, frames: Frames::default(), heard: Instant::now() }
    }

    pub(super) fn plain(self) -> Wire {
        Wire { socket: Box::new(self.socket), frames: self.frames, heard: self.heard }
    }

    /// Goes on inside TLS. Bytes that have already arrived in clear would be taken for TLS
    /// content by what follows: they are refused.
    pub(super) async fn secure(self, tls: &TlsConnector, host: &str) -> Result<Wire, WireError> {
        if self.frames.has_rest() {
            return Err(WireError::ClearBytes);
        }
        let socket = tls.connect(host, self.socket).await.map_err(WireError::Tls)?;
        Ok(Wire { socket: Box::new(socket), frames: self.frames, heard: self.heard })
    }
}

impl<S: Socket> Wire<S> {
    /// When bytes last arrived.
    pub(super) const fn heard(&self) -> Instant {
        self.heard
    }

    /// The next packet, if it has arrived whole.
    pub(super) fn take(&mut self) -> Result<Option<Bytes>, WireError> {
        Ok(self.frames.take()?)
    }

    /// Waits for more bytes. Cancel safe.
    pub(super) async fn fill(&mut self) -> Result<(), WireError> {
        let read = self.socket.read_buf(self.frames.read_buffer()).await.map_err(WireError::Io)?;
        if read == 0 {
            return Err(WireError::Closed);
        }
        self.heard = Instant::now();
        Ok(())
    }

    /// Waits for the next packet. Cancel safe.
    pub(super) async fn read(&mut self) -> Result<Bytes, WireError> {
        loop {
            if let Some(packet) = self.take()? {
                return Ok(packet);
            }
            self.fill().await?;
        }
    }

    /// Sends a packet that goes on with the exchange in hand.
    pub(super) async fn reply(&mut self, payload: &[u8]) -> Result<(), WireError> {
        let mut bytes = Vec::with_capacity(payload.len() + 8);
        let next = frame(payload, self.frames.sequence(), &mut bytes);
        self.frames.set_sequence(next);
        self.socket.write_all(&bytes).await.map_err(WireError::Io)?;
        self.socket.flush().await.map_err(WireError::Io)
    }

    /// Sends a packet that begins an exchange.
    pub(super) async fn command(&mut self, payload: &[u8]) -> Result<(), WireError> {
        self.frames.set_sequence(0);
        self.reply(payload).await
    }

    pub(super) async fn shutdown(&mut self) -> Result<(), WireError> {
        self.socket.shutdown().await.map_err(WireError::Io)
    }
}
