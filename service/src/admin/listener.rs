//! Bounds on what clients of the admin surface can take: connections, time and bytes.
//!
//! One connection carries one request and then closes, so the bounds of a connection are those
//! of a request, be it slow to send, slow to read or endless.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Sleep, sleep};

/// Open connections; more wait in the operating system's backlog. Probes, a scraper and a few
/// dashboards need a handful.
const CONNECTIONS_MAX: usize = 64;

/// From accepting a connection to the end of its answer. Answers come from memory.
const CONNECTION_TIME_MAX: Duration = Duration::from_secs(10);

/// Bytes read from a connection: request line, headers, and a body that nothing looks at.
const REQUEST_BYTES_MAX: usize = 32 << 10;

/// Wait after a failed accept, such as for want of file descriptors, which may pass.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(500);

/// Accepts no more than the bounds allow.
pub(super) struct BoundedListener {
    listener: TcpListener,
    permits: Arc<Semaphore>,
    time_max: Duration,
}

impl BoundedListener {
    pub(super) fn new(listener: TcpListener) -> Self {
        Self::with_time_max(listener, CONNECTION_TIME_MAX)
    }

    fn with_time_max(listener: TcpListener, time_max: Duration) -> Self {
        Self { listener, permits: Arc::new(Semaphore::new(CONNECTIONS_MAX)), time_max }
    }
}

impl axum::serve::Listener for BoundedListener {
    type Io = BoundedStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let permit = Arc::clone(&self.permits).acquire_owned().await.ok();
            match self.listener.accept().await {
                Ok((stream, address)) => {
                    let deadline = Box::pin(sleep(self.time_max));
                    return (
                        BoundedStream { stream, deadline, bytes_left: REQUEST_BYTES_MAX, _permit: permit },
                        address,
                    );
                }
                Err(error) => {
                    tracing::warn!(%error, "the admin surface can't accept a connection");
                    sleep(ACCEPT_BACKOFF).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

/// A connection that fails once its time or bytes are used up.
pub(super) struct BoundedStream {
    stream: TcpStream,
    deadline: Pin<Box<Sleep>>,
    bytes_left: usize,
    /// Given back when the connection closes.
    _permit: Option<OwnedSemaphorePermit>,
}

impl BoundedStream {
    fn check_deadline(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        match self.deadline.as_mut().poll(context) {
            Poll::Ready(()) => Err(io::ErrorKind::TimedOut.into()),
            Poll::Pending => Ok(()),
        }
    }
}

impl AsyncRead for BoundedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check_deadline(context)?;
        if self.bytes_left == 0 {
            return Poll::Ready(Err(io::ErrorKind::FileTooLarge.into()));
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        let read = buffer.filled().len() - before;
        self.bytes_left = self.bytes_left.saturating_sub(read);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for BoundedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check_deadline(context)?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check_deadline(context)?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check_deadline(context)?;
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::serve::Listener as _;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    async fn listener(time_max: Duration) -> (BoundedListener, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
        let address = listener.local_addr().expect("address");
        (BoundedListener::with_time_max(listener, time_max), address)
    }

    #[tokio::test]
    async fn a_silent_client_is_dropped_in_time() {
        let (mut listener, address) = listener(Duration::from_millis(50)).await;
        let _client = TcpStream::connect(address).await.expect("connect");
        let (mut stream, _) = listener.accept().await;
        let error = stream.read_u8().await.expect_err("timed out");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_client_that_does_not_read_is_dropped_in_time() {
        let (mut listener, address) = listener(Duration::from_millis(50)).await;
        let _client = TcpStream::connect(address).await.expect("connect");
        let (mut stream, _) = listener.accept().await;
        let more_than_any_socket_buffer = vec![0; 64 << 20];
        let error = stream.write_all(&more_than_any_socket_buffer).await.expect_err("timed out");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn an_endless_request_is_cut_off() {
        let (mut listener, address) = listener(Duration::from_secs(60)).await;
        let mut client = TcpStream::connect(address).await.expect("connect");
        let (mut stream, _) = listener.accept().await;
        let sender = tokio::spawn(async move { while client.write_all(&[b'x'; 4096]).await.is_ok() {} });
        let mut received = Vec::new();
        let error = stream.read_to_end(&mut received).await.expect_err("cut off");
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        drop(stream);
        sender.await.expect("ends with the connection");
    }

    #[tokio::test]
    async fn connections_beyond_the_bound_wait_for_one_to_close() {
        let (mut listener, address) = listener(Duration::from_secs(60)).await;
        let mut open = Vec::new();
        for _ in 0..CONNECTIONS_MAX {
            let client = TcpStream::connect(address).await.expect("connect");
            open.push((client, listener.accept().await));
        }
        let _client = TcpStream::connect(address).await.expect("the backlog takes it");
        let waited = tokio::time::timeout(Duration::from_millis(50), listener.accept()).await;
        assert!(waited.is_err(), "one too many");
        open.pop();
        let accepted = tokio::time::timeout(Duration::from_secs(5), listener.accept()).await;
        assert!(accepted.is_ok(), "a place is free");
    }
}
