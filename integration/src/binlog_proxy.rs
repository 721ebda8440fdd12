//! A proxy before MySQL that tampers with a binlog stream on its way, event by event.
//!
//! It understands the packets of the client protocol, in plain text and uncompressed (MySQL
//! internals manual, "MySQL Packets"), and which connection has become a dump. Of the others only
//! bytes can be replaced.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

const COM_BINLOG_DUMP_GTID: u8 = 0x1e;

/// First byte of a packet that carries an event.
const OK: u8 = 0;

/// Offset of an event's type in its header.
const TYPE: usize = 4;

/// What happens to the stream.
#[derive(Debug, Clone, Copy)]
pub enum Tamper {
    /// Events of these types are left out.
    Drop(&'static [u8]),
    /// Events of the first type are said to be of the second.
    Retype(u8, u8),
    /// The first bytes are replaced by as many others, in what either side sends.
    Replace(&'static [u8], &'static [u8]),
}

/// A proxy on a port of the loopback interface. Gone, with its connections, when it is dropped.
#[derive(Debug)]
pub struct BinlogProxy {
    addr: SocketAddr,
    tamper: Arc<Mutex<Vec<Tamper>>>,
    _tasks: JoinSet<()>,
}

impl BinlogProxy {
    pub async fn start(upstream: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let addr = listener.local_addr()?;
        let tamper = Arc::new(Mutex::default());
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, upstream, Arc::clone(&tamper)));
        Ok(Self { addr, tamper, _tasks: tasks })
    }

    /// Where clients connect.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// From the next event on, and instead of what was done before. Nothing is tampered with at first.
    pub fn tamper(&self, how: &[Tamper]) {
        *self.tamper.lock().unwrap_or_else(PoisonError::into_inner) = how.to_vec();
    }
}

async fn accept(listener: TcpListener, upstream: SocketAddr, tamper: Arc<Mutex<Vec<Tamper>>>) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        let tamper = Arc::clone(&tamper);
        connections.spawn(async move {
            // An end of either side is the end of the connection.
            let _ended = relay(client, upstream, &tamper).await.is_ok();
        });
    }
}

async fn relay(client: TcpStream, upstream: SocketAddr, tamper: &Mutex<Vec<Tamper>>) -> Result<()> {
    let server = TcpStream::connect(upstream).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let dumps = AtomicBool::new(false);
    tokio::select! {
        end = requests(from_client, to_server, tamper, &dumps) => end,
        end = answers(from_server, to_client, tamper, &dumps) => end,
    }
}

async fn requests(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    tamper: &Mutex<Vec<Tamper>>,
    dumps: &AtomicBool,
) -> Result<()> {
    loop {
        let mut packet = Packet::read(&mut from).await?;
        if packet.sequence == 0 && packet.payload.first() == Some(&COM_BINLOG_DUMP_GTID) {
            dumps.store(true, Ordering::Release);
        }
        replace(tamper, &mut packet.payload);
        packet.write(&mut to).await?;
    }
}

/// The packets after one that was left out are numbered anew.
async fn answers(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    tamper: &Mutex<Vec<Tamper>>,
    dumps: &AtomicBool,
) -> Result<()> {
    let mut left_out = 0u8;
    loop {
        let mut packet = Packet::read(&mut from).await?;
        if dumps.load(Ordering::Acquire) {
            packet.sequence = packet.sequence.wrapping_sub(left_out);
            if packet.payload.first() == Some(&OK) && !passes(tamper, &mut packet.payload[1..]) {
                left_out = left_out.wrapping_add(1);
                continue;
            }
        } else {
            replace(tamper, &mut packet.payload);
        }
        packet.write(&mut to).await?;
    }
}

fn now(tamper: &Mutex<Vec<Tamper>>) -> Vec<Tamper> {
    tamper.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Tampers with an event; false if it is to be left out.
fn passes(tamper: &Mutex<Vec<Tamper>>, event: &mut [u8]) -> bool {
    replace(tamper, event);
    let Some(kind) = event.get_mut(TYPE) else { return true };
    for how in now(tamper) {
        match how {
            Tamper::Drop(kinds) if kinds.contains(kind) => return false,
            Tamper::Retype(from, to) if *kind == from => *kind = to,
            Tamper::Drop(_) | Tamper::Retype(..) | Tamper::Replace(..) => {}
        }
    }
    true
}

fn replace(tamper: &Mutex<Vec<Tamper>>, bytes: &mut [u8]) {
    for how in now(tamper) {
        let Tamper::Replace(old, new) = how else { continue };
        assert_eq!(old.len(), new.len(), "a packet has to keep its length");
        if let Some(at) = bytes.windows(old.len()).position(|window| window == old) {
            bytes[at..at + new.len()].copy_from_slice(new);
        }
    }
}

struct Packet {
    sequence: u8,
    payload: Vec<u8>,
}

impl Packet {
    async fn read(from: &mut OwnedReadHalf) -> Result<Self> {
        let mut header = [0; 4];
        from.read_exact(&mut header).await?;
        let [a, b, c, sequence] = header;
        let mut payload = vec![0; usize::try_from(u32::from_le_bytes([a, b, c, 0]))?];
        from.read_exact(&mut payload).await?;
        Ok(Self { sequence, payload })
    }

    async fn write(&self, to: &mut OwnedWriteHalf) -> Result<()> {
        let [a, b, c, _] = u32::try_from(self.payload.len())?.to_le_bytes();
        let packet = [&[a, b, c, self.sequence], self.payload.as_slice()].concat();
        Ok(to.write_all(&packet).await?)
    }
}
