//! The socket of a session and its packets.

use std::io;

use bytes::Bytes;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_native_tls::TlsConnector;

use super::packet::{FrameError, Frames, frame};
use crate::halt::{Failure, Side};
use crate::source::connect::KEEPALIVE;
use crate::tls;

/// A TCP or TLS stream.
pub(in crate::source) trait Socket: AsyncRead + AsyncWrite + Send + Sync + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Sync + Unpin> Socket for T {}

/// Why no packet could be read or written.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
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

pub(in crate::source) struct Wire<S = Box<dyn Socket>> {
    socket: S,
    frames: Frames,
    /// When bytes last arrived.
    heard: Instant,
}

impl Wire<TcpStream> {
    pub(super) async fn connect(host: &str, port: u16) -> Result<Self, WireError> {
        let socket = TcpStream::connect((host, port)).await.map_err(WireError::Io)?;
        socket.set_nodelay(true).map_err(WireError::Io)?;
        let keepalive = TcpKeepalive::new().with_time(KEEPALIVE);
        SockRef::from(&socket).set_tcp_keepalive(&keepalive).map_err(WireError::Io)?;
        Ok(Self { socket, frames: Frames::default(), heard: Instant::now() })
    }

    pub(super) fn plain(self) -> Wire {
        Wire { socket: Box::new(self.socket), frames: self.frames, heard: self.heard }
    }

    /// Goes on inside TLS. Bytes that have already arrived in clear would be taken for TLS
    /// content by what follows: they are refused.
    pub(super) async fn secure(mut self, tls: &TlsConnector, host: &str) -> Result<Wire, WireError> {
        if self.frames.has_rest() {
            return Err(WireError::ClearBytes);
        }
        let socket = tls.connect(host, self.socket).await.map_err(WireError::Tls)?;
        Ok(Wire { socket: Box::new(socket), frames: self.frames, heard: self.heard })
    }
}

#[cfg(test)]
impl Wire {
    pub(super) fn over(socket: impl Socket + 'static) -> Self {
        Self { socket: Box::new(socket), frames: Frames::default(), heard: Instant::now() }
    }
}

impl<S: Socket> Wire<S> {
    /// When bytes last arrived.
    pub(in crate::source) const fn heard(&self) -> Instant {
        self.heard
    }

    /// The next packet, if it has arrived whole.
    pub(in crate::source) fn take(&mut self) -> Result<Option<Bytes>, WireError> {
        Ok(self.frames.take()?)
    }

    /// Waits for more bytes. Cancel safe.
    pub(in crate::source) async fn fill(&mut self) -> Result<(), WireError> {
        let read = self.socket.read_buf(self.frames.read_buffer()).await.map_err(WireError::Io)?;
        if read == 0 {
            return Err(WireError::Closed);
        }
        self.heard = Instant::now();
        Ok(())
    }

    /// Waits for the next packet, which [`Self::packet`] shows then. Cancel safe.
    pub(super) async fn advance(&mut self) -> Result<(), WireError> {
        while !self.frames.advance()? {
            self.fill().await?;
        }
        Ok(())
    }

    /// The packet that [`Self::advance`] has gone on to.
    pub(super) fn packet(&self) -> &[u8] {
        self.frames.packet()
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
        self.send(&bytes).await
    }

    /// Sends packets that begin an exchange each. Only the last of them is answered.
    pub(super) async fn commands(&mut self, payloads: &[&[u8]]) -> Result<(), WireError> {
        let mut bytes = Vec::new();
        for payload in payloads {
            let next = frame(payload, 0, &mut bytes);
            self.frames.set_sequence(next);
        }
        self.send(&bytes).await
    }

    async fn send(&mut self, bytes: &[u8]) -> Result<(), WireError> {
        self.socket.write_all(bytes).await.map_err(WireError::Io)?;
        self.socket.flush().await.map_err(WireError::Io)
    }

    pub(in crate::source) async fn shutdown(&mut self) -> Result<(), WireError> {
        self.socket.shutdown().await.map_err(WireError::Io)
    }
}
