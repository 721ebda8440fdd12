//! A TCP proxy that fails on purpose, above all around COMMIT.
//!
//! Before PostgreSQL it understands just enough of the frontend and backend protocol, in plain text,
//! to see a COMMIT go by and its answer come back. Before anything else it can cut, block and refuse.

use std::collections::{HashMap, HashSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader, BufWriter};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::wait;

/// Startup packets that ask for encryption, which the proxy declines, and one that cancels a query.
const SSL_REQUEST: u32 = 80_877_103;
const GSS_REQUEST: u32 = 80_877_104;

/// A message longer than this is no message: the proxy has lost the framing.
const MAX_MESSAGE: usize = 1 << 30;

/// What happens to a transaction's COMMIT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The server commits; the answer is dropped and the client's connection closed.
    LoseCommitAnswer,
    /// The COMMIT is dropped and both connections closed: the server rolls back.
    LoseCommit,
    /// The client's connection is closed at once; the server gets the COMMIT at [`CutProxy::release`].
    DelayCommit,
}

#[derive(Debug)]
struct Armed {
    fault: Fault,
    /// Commits that pass before the fault strikes.
    skip: u32,
    /// Only a connection that has sent a statement with this text counts.
    statement: String,
}

#[derive(Debug, Clone, Copy, Default)]
struct Control {
    blocked: bool,
    refusing: bool,
    /// Raised by every cut; a connection ends when it is not the one it began in.
    generation: u64,
    /// Raised by every release of delayed commits.
    released: u64,
}

#[derive(Debug)]
struct Shared {
    upstream: SocketAddr,
    speaks_postgres: bool,
    control: watch::Sender<Control>,
    armed: Mutex<Option<Armed>>,
    fired: watch::Sender<u32>,
    /// Bytes of the server's answers, and what is told instead of them.
    lie: Option<(Vec<u8>, Vec<u8>)>,
}

/// A proxy on a port of the loopback interface. Gone, with its connections, when it is dropped.
#[derive(Debug)]
pub struct CutProxy {
    addr: SocketAddr,
    shared: Arc<Shared>,
    acceptor: JoinHandle<()>,
}

impl CutProxy {
    /// Before a PostgreSQL server.
    pub async fn postgres(upstream: SocketAddr) -> Result<Self> {
        Self::start(upstream, true, None).await
    }

    /// Before a PostgreSQL server, whose answers are told with other bytes of the same length in
    /// place of these.
    pub async fn lying(upstream: SocketAddr, truth: &[u8], lie: &[u8]) -> Result<Self> {
        assert_eq!(truth.len(), lie.len(), "a message has to keep its length");
        Self::start(upstream, true, Some((truth.to_vec(), lie.to_vec()))).await
    }

    /// Before any server, such as MySQL: it can cut, block and refuse.
    pub async fn opaque(upstream: SocketAddr) -> Result<Self> {
        Self::start(upstream, false, None).await
    }

    async fn start(
        upstream: SocketAddr,
        speaks_postgres: bool,
        lie: Option<(Vec<u8>, Vec<u8>)>,
    ) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let addr = listener.local_addr()?;
        let shared = Arc::new(Shared {
            upstream,
            speaks_postgres,
            control: watch::Sender::new(Control::default()),
            armed: Mutex::new(None),
            fired: watch::Sender::new(0),
            lie,
        });
        let acceptor = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Ok(Self { addr, shared, acceptor })
    }

    /// Where clients connect.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The fault strikes the next COMMIT of any connection.
    pub fn arm(&self, fault: Fault) {
        self.arm_on(fault, 0, "");
    }

    /// The fault strikes after `skip` more COMMITs, counting only connections that have sent, or once
    /// prepared, a statement with this text.
    pub fn arm_on(&self, fault: Fault, skip: u32, statement: &str) {
        *self.shared.armed() = Some(Armed { fault, skip, statement: statement.to_owned() });
    }

    /// How many faults have struck.
    pub fn fired(&self) -> u32 {
        *self.shared.fired.borrow()
    }

    /// Waits until as many faults have struck in all.
    pub async fn wait_fired(&self, times: u32) -> Result<()> {
        let mut fired = self.shared.fired.subscribe();
        let struck = tokio::time::timeout(wait::deadline(), fired.wait_for(|fired| *fired >= times)).await;
        struck.context("the proxy's fault did not strike: no COMMIT came by")??;
        Ok(())
    }

    /// Lets delayed commits reach the server.
    pub fn release(&self) {
        self.shared.control.send_modify(|control| control.released += 1);
    }

    /// Closes every connection now.
    pub fn cut(&self) {
        self.shared.control.send_modify(|control| control.generation += 1);
    }

    /// Forwards nothing in either direction, while connections stay open and are accepted.
    pub fn block(&self) {
        self.shared.control.send_modify(|control| control.blocked = true);
    }

    pub fn unblock(&self) {
        self.shared.control.send_modify(|control| control.blocked = false);
    }

    /// Closes every connection now and each new one as soon as it is made.
    pub fn refuse(&self) {
        self.shared.control.send_modify(|control| {
            control.refusing = true;
            control.generation += 1;
        });
    }

    pub fn admit(&self) {
        self.shared.control.send_modify(|control| control.refusing = false);
    }
}

impl Drop for CutProxy {
    fn drop(&mut self) {
        self.acceptor.abort();
        self.cut();
    }
}

impl Shared {
    fn armed(&self) -> MutexGuard<'_, Option<Armed>> {
        self.armed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn strike(&self) {
        *self.armed() = None;
        self.fired.send_modify(|fired| *fired += 1);
    }

    /// The fault for a COMMIT that a client just sent.
    fn fault_for(&self, session: &Session) -> Option<Fault> {
        let mut armed = self.armed();
        let armed = armed.as_mut().filter(|armed| session.has_sent(&armed.statement))?;
        if armed.skip > 0 {
            armed.skip -= 1;
            return None;
        }
        Some(armed.fault)
    }

    fn tell_otherwise(&self, message: &mut [u8]) {
        let Some((truth, lie)) = &self.lie else { return };
        if let Some(at) = message.windows(truth.len()).position(|bytes| bytes == truth) {
            message[at..at + lie.len()].copy_from_slice(lie);
        }
    }

    async fn unblocked(&self) -> Result<()> {
        self.control.subscribe().wait_for(|control| !control.blocked).await?;
        Ok(())
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((client, _)) = listener.accept().await {
        if !shared.control.borrow().refusing {
            tokio::spawn(serve(client, Arc::clone(&shared)));
        }
    }
}

/// One connection from beginning to end. Whatever ends it closes both sides.
async fn serve(client: TcpStream, shared: Arc<Shared>) {
    let mut control = shared.control.subscribe();
    let generation = control.borrow().generation;
    tokio::select! {
        _ = relay(client, &shared) => {}
        _ = control.wait_for(|control| control.generation != generation) => {}
    }
}

type Reader = BufReader<OwnedReadHalf>;
type Writer = BufWriter<OwnedWriteHalf>;

async fn relay(client: TcpStream, shared: &Shared) -> Result<()> {
    let server = TcpStream::connect(shared.upstream).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut from_client, mut to_client) = halves(client);
    let (mut from_server, mut to_server) = halves(server);
    if !shared.speaks_postgres {
        return tokio::select! {
            end = copy(&mut from_client, &mut to_server, shared) => end,
            end = copy(&mut from_server, &mut to_client, shared) => end,
        };
    }
    start_up(&mut from_client, &mut to_client, &mut to_server).await?;
    let awaiting = watch::Sender::new(false);
    let delayed = tokio::select! {
        end = forward_client(&mut from_client, &mut to_server, shared, &awaiting) => end?,
        end = forward_server(&mut from_server, &mut to_client, shared, &awaiting) => return end,
    };
    drop((from_client, to_client));
    match delayed {
        Some(commit) => deliver_late(&commit, &mut from_server, &mut to_server, shared).await,
        None => Ok(()),
    }
}

fn halves(stream: TcpStream) -> (Reader, Writer) {
    let (read, write) = stream.into_split();
    (BufReader::new(read), BufWriter::new(write))
}

async fn copy(from: &mut Reader, to: &mut Writer, shared: &Shared) -> Result<()> {
    let mut bytes = vec![0; 64 * 1024];
    loop {
        let read = from.read(&mut bytes).await?;
        if read == 0 {
            return Ok(());
        }
        shared.unblocked().await?;
        to.write_all(&bytes[..read]).await?;
        to.flush().await?;
    }
}

/// Passes the startup packet on, after declining encryption as often as it is asked for.
async fn start_up(from_client: &mut Reader, to_client: &mut Writer, to_server: &mut Writer) -> Result<()> {
    loop {
        let packet = read_sized(from_client, Vec::new()).await?;
        let code = packet.get(4..8).and_then(|code| code.try_into().ok()).map(u32::from_be_bytes);
        if matches!(code, Some(SSL_REQUEST | GSS_REQUEST)) {
            to_client.write_all(b"N").await?;
            to_client.flush().await?;
            continue;
        }
        to_server.write_all(&packet).await?;
        return Ok(to_server.flush().await?);
    }
}

/// Client to server. Returns when the connection is over, with a commit that is to arrive late.
async fn forward_client(
    from: &mut Reader,
    to: &mut Writer,
    shared: &Shared,
    awaiting: &watch::Sender<bool>,
) -> Result<Option<Vec<u8>>> {
    let mut session = Session::default();
    loop {
        let message = read_message(from).await?;
        shared.unblocked().await?;
        let fault = if session.commits(&message) { shared.fault_for(&session) } else { None };
        match fault {
            None => {}
            Some(Fault::LoseCommitAnswer) => drop(awaiting.send_replace(true)),
            Some(fault) => {
                to.flush().await?;
                shared.strike();
                return Ok((fault == Fault::DelayCommit).then_some(message));
            }
        }
        to.write_all(&message).await?;
        if from.buffer().is_empty() {
            to.flush().await?;
        }
    }
}

/// Server to client, up to the answer that is to be lost.
async fn forward_server(
    from: &mut Reader,
    to: &mut Writer,
    shared: &Shared,
    awaiting: &watch::Sender<bool>,
) -> Result<()> {
    loop {
        let mut message = read_message(from).await?;
        shared.unblocked().await?;
        shared.tell_otherwise(&mut message);
        if *awaiting.borrow() && completes_commit(&message) {
            shared.strike();
            return Ok(());
        }
        to.write_all(&message).await?;
        if from.buffer().is_empty() {
            to.flush().await?;
        }
    }
}

/// Sends a commit whose client has gone, once it is released, and waits until the server has ended
/// the session. Answers to statements before it may have been left half-way: none is read.
async fn deliver_late(commit: &[u8], from: &mut Reader, to: &mut Writer, shared: &Shared) -> Result<()> {
    let mut control = shared.control.subscribe();
    let released = control.borrow().released;
    control.wait_for(|control| control.released != released).await?;
    to.write_all(commit).await?;
    to.write_all(TERMINATE).await?;
    to.flush().await?;
    let mut rest = [0; 1024];
    while from.read(&mut rest).await? > 0 {}
    Ok(())
}

/// What a client has prepared, by name, as far as commits are concerned.
#[derive(Debug, Default)]
struct Session {
    statements: HashMap<Vec<u8>, bool>,
    portals: HashMap<Vec<u8>, bool>,
    /// Texts sent, for faults that are armed for some connections only.
    texts: HashSet<String>,
}

impl Session {
    fn has_sent(&self, statement: &str) -> bool {
        statement.is_empty() || self.texts.iter().any(|text| text.contains(statement))
    }

    /// Takes note of a message, and tells whether it commits.
    fn commits(&mut self, message: &[u8]) -> bool {
        let Some((kind, mut body)) =
            message.split_first().map(|(kind, rest)| (*kind, rest.get(4..).unwrap_or(&[])))
        else {
            return false;
        };
        match kind {
            b'Q' => self.note(c_string(&mut body)),
            b'P' => {
                let name = c_string(&mut body).to_vec();
                let commits = self.note(c_string(&mut body));
                self.statements.insert(name, commits);
                false
            }
            b'B' => {
                let portal = c_string(&mut body).to_vec();
                let commits = self.statements.get(c_string(&mut body)).copied().unwrap_or(false);
                self.portals.insert(portal, commits);
                false
            }
            b'E' => self.portals.get(c_string(&mut body)).copied().unwrap_or(false),
            _ => false,
        }
    }

    fn note(&mut self, sql: &[u8]) -> bool {
        let sql = String::from_utf8_lossy(sql).into_owned();
        let commits = sql.split(';').any(is_commit);
        self.texts.insert(sql);
        commits
    }
}

fn is_commit(statement: &str) -> bool {
    let mut words = statement.split_ascii_whitespace().map(str::to_ascii_uppercase);
    let first = words.next();
    matches!(first.as_deref(), Some("COMMIT" | "END")) && words.next().as_deref() != Some("PREPARED")
}

/// `Terminate`: the end of a session.
const TERMINATE: &[u8] = b"X\0\0\0\x04";

/// `CommandComplete` with the tag of a commit.
fn completes_commit(message: &[u8]) -> bool {
    message.first() == Some(&b'C') && message.get(5..) == Some(b"COMMIT\0")
}

fn c_string<'a>(body: &mut &'a [u8]) -> &'a [u8] {
    let end = body.iter().position(|byte| *byte == 0).unwrap_or(body.len());
    let (text, rest) = body.split_at(end);
    *body = rest.get(1..).unwrap_or(&[]);
    text
}

/// A message with its type byte and its length.
async fn read_message(from: &mut Reader) -> Result<Vec<u8>> {
    let kind = from.read_u8().await?;
    read_sized(from, vec![kind]).await
}

/// A length that counts itself, and as many bytes, after what is there.
async fn read_sized(from: &mut Reader, mut message: Vec<u8>) -> Result<Vec<u8>> {
    let length = from.read_u32().await?;
    let body = usize::try_from(length)?.checked_sub(4).filter(|body| *body <= MAX_MESSAGE);
    let Some(body) = body else { bail!("a message of {length} bytes") };
    message.extend(length.to_be_bytes());
    let start = message.len();
    message.resize(start + body, 0);
    from.read_exact(&mut message[start..]).await?;
    Ok(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + 4).expect("short").to_be_bytes();
        [&[kind], length.as_slice(), body].concat()
    }

    #[test]
    fn sees_commits_in_both_protocols() {
        let mut session = Session::default();
        assert!(session.commits(&message(b'Q', b"commit\0")));
        assert!(session.commits(&message(b'Q', b"INSERT INTO t VALUES (1); COMMIT\0")));
        assert!(!session.commits(&message(b'Q', b"COMMIT PREPARED 'x'\0")));
        assert!(!session.commits(&message(b'Q', b"INSERT INTO commits VALUES (1)\0")));
        assert!(!session.commits(&message(b'P', b"s1\0COMMIT\0\0\0")));
        assert!(!session.commits(&message(b'B', b"p1\0s1\0\0\0\0\0\0\0")));
        assert!(session.commits(&message(b'E', b"p1\0\0\0\0\0")));
        assert!(!session.commits(&message(b'E', b"p2\0\0\0\0\0")));
        assert!(session.has_sent("INTO commits") && !session.has_sent("checkpoint"));
    }
}
