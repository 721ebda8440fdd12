//! SQL on the source, as root, as an application or as the replication user.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, OptsBuilder, Row, Value};

use crate::servers::{Kind, Server};

/// The user that Tidegate connects as, and its password.
pub const REPLICATION_USER: &str = "repl";
pub const REPLICATION_PASSWORD: &str = "canary-mysql-password";

const ROOT_PASSWORD: &str = "canary-mysql-root";

/// Client limit for one packet: the greatest the protocol has a use for.
const MAX_ALLOWED_PACKET: usize = 1 << 30;

/// What every source needs. Arguments of a test come after these and win.
const BASE_ARGS: [&str; 7] = [
    "--gtid-mode=ON",
    "--enforce-gtid-consistency=ON",
    "--binlog-row-metadata=FULL",
    "--server-id=1",
    "--mysqlx=OFF",
    "--skip-name-resolve",
    "--max-allowed-packet=1G",
];

/// The replication user with the rights that Tidegate asks for, made outside the binlog.
const SET_UP: &str = "SET SESSION sql_log_bin = 0;
    CREATE USER 'repl'@'%' IDENTIFIED BY 'canary-mysql-password';
    GRANT REPLICATION SLAVE, REPLICATION CLIENT, SELECT, LOCK TABLES, PROCESS ON *.* TO 'repl'@'%';
    GRANT BACKUP_ADMIN, XA_RECOVER_ADMIN ON *.* TO 'repl'@'%'";

/// A row as text, `None` for NULL; a value that is not UTF-8 as `0x` and its bytes in hex.
pub type TextRow = Vec<Option<String>>;

#[derive(Debug)]
pub struct MySqlKind;

/// A MySQL server in a container.
pub type MySql = Server<MySqlKind>;

impl Kind for MySqlKind {
    const NAME: &'static str = "MySQL";
    const PORT: u16 = 3306;
    const IMAGE_VARIABLE: &'static str = "TIDEGATE_MYSQL_IMAGE";
    const IMAGES: [&'static str; 2] = ["mysql:9.7", "tidegate/mysql:9.7"];

    fn environment() -> Vec<(&'static str, &'static str)> {
        vec![("MYSQL_ROOT_PASSWORD", ROOT_PASSWORD)]
    }

    fn command(args: &[&str]) -> Vec<String> {
        BASE_ARGS.iter().chain(args).map(ToString::to_string).collect()
    }

    async fn probe(server: &Server<Self>) -> Result<()> {
        server.session("mysql").await?.exec("SELECT 1").await
    }
}

impl MySql {
    /// A new server, ready, with the replication user.
    pub async fn start_new(args: &[&str]) -> Result<Self> {
        let server = Self::launch(args, &[]).await?;
        server.exec("mysql", SET_UP).await?;
        Ok(server)
    }

    /// As [`start_new`](Self::start_new), in a time zone given as POSIX writes them.
    pub async fn start_in_zone(zone: &str) -> Result<Self> {
        let server = Self::launch(&[], &[("TZ", zone)]).await?;
        server.exec("mysql", SET_UP).await?;
        Ok(server)
    }

    /// A connection as root. Empty `db` for none.
    pub async fn session(&self, db: &str) -> Result<MySqlSession> {
        self.session_as("root", ROOT_PASSWORD, db).await
    }

    pub async fn session_as(&self, user: &str, password: &str, db: &str) -> Result<MySqlSession> {
        MySqlSession::connect(self.addr(), user, password, db).await
    }

    /// Runs statements separated by `;` on a new connection as root.
    pub async fn exec(&self, db: &str, sql: &str) -> Result<()> {
        let mut session = self.session(db).await?;
        session.exec(sql).await?;
        session.close().await
    }

    /// The rows of a query, on a new connection as root.
    pub async fn rows(&self, db: &str, sql: &str) -> Result<Vec<TextRow>> {
        let mut session = self.session(db).await?;
        let rows = session.rows(sql).await?;
        session.close().await?;
        Ok(rows)
    }

    /// The first column of the first row.
    pub async fn scalar(&self, db: &str, sql: &str) -> Result<Option<String>> {
        Ok(first(self.rows(db, sql).await?))
    }

    /// `@@gtid_executed`, on one line.
    pub async fn gtid_executed(&self) -> Result<String> {
        Ok(self.scalar("", "SELECT @@GLOBAL.gtid_executed").await?.unwrap_or_default().replace('\n', ""))
    }

    /// Whether `subset` is included in `set`, as the server judges it.
    pub async fn gtid_subset(&self, subset: &str, set: &str) -> Result<bool> {
        let sql = format!("SELECT GTID_SUBSET({}, {})", literal(subset), literal(set));
        Ok(self.scalar("", &sql).await?.as_deref() == Some("1"))
    }
}

/// One connection to MySQL, for transactions, XA, locks and session variables.
#[derive(Debug)]
pub struct MySqlSession {
    conn: Conn,
}

impl MySqlSession {
    /// Connects to any address: a server's own, or that of a proxy before it. Empty `db` for none.
    pub async fn connect(addr: SocketAddr, user: &str, password: &str, db: &str) -> Result<Self> {
        let options = OptsBuilder::default()
            .ip_or_hostname(addr.ip().to_string())
            .tcp_port(addr.port())
            .user(Some(user))
            .pass(Some(password))
            .db_name(Some(db).filter(|db| !db.is_empty()))
            .prefer_socket(false)
            .max_allowed_packet(Some(MAX_ALLOWED_PACKET));
        let conn = Conn::new(options).await.with_context(|| format!("{user} cannot connect to MySQL"))?;
        Ok(Self { conn })
    }

    /// Runs statements separated by `;`.
    pub async fn exec(&mut self, sql: &str) -> Result<()> {
        self.conn.query_drop(sql).await.with_context(|| format!("MySQL: {}", abridged(sql)))
    }

    pub async fn rows(&mut self, sql: &str) -> Result<Vec<TextRow>> {
        let rows: Vec<Row> =
            self.conn.query(sql).await.with_context(|| format!("MySQL: {}", abridged(sql)))?;
        Ok(rows.into_iter().map(|row| row.unwrap().into_iter().map(text).collect()).collect())
    }

    pub async fn scalar(&mut self, sql: &str) -> Result<Option<String>> {
        Ok(first(self.rows(sql).await?))
    }

    /// The connection itself, for what needs the driver.
    pub fn conn(&mut self) -> &mut Conn {
        &mut self.conn
    }

    pub async fn close(self) -> Result<()> {
        Ok(self.conn.disconnect().await?)
    }
}

/// `text` as a MySQL string literal, under the default SQL mode.
pub fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

/// `name` as a MySQL identifier.
pub fn identifier(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// The beginning of a statement, for an error.
pub(crate) fn abridged(sql: &str) -> String {
    const SHOWN: usize = 300;
    let shown: String = sql.chars().take(SHOWN).collect();
    if shown.len() < sql.len() { format!("{shown}…") } else { shown }
}

pub(crate) fn first(rows: Vec<TextRow>) -> Option<String> {
    rows.into_iter().next()?.into_iter().next()?
}

fn text(value: Value) -> Option<String> {
    match value {
        Value::NULL => None,
        Value::Bytes(bytes) => Some(String::from_utf8(bytes).unwrap_or_else(|bad| hex(bad.as_bytes()))),
        other => Some(other.as_sql(true)),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold("0x".to_owned(), |text, byte| text + &format!("{byte:02X}"))
}
