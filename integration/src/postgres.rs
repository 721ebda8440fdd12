//! SQL on the target, as superuser or as the role of Tidegate.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use tokio_postgres::{Client, Config, NoTls, SimpleQueryMessage};

use crate::mysql::{TextRow, abridged, first};
use crate::servers::{Kind, Server, image_of};

/// The role that Tidegate connects as, and its password. It is no superuser.
pub const TARGET_ROLE: &str = "tidegate";
pub const TARGET_PASSWORD: &str = "canary-postgres-password";

const SUPERUSER: &str = "postgres";
const SUPERUSER_PASSWORD: &str = "canary-postgres-superuser";

/// The role of Tidegate, with the one right that it needs beyond its own database.
const SET_UP: &str = "CREATE ROLE tidegate LOGIN PASSWORD 'canary-postgres-password';
    GRANT SET ON PARAMETER session_replication_role TO tidegate";

#[derive(Debug)]
pub struct PostgresKind;

/// A PostgreSQL server in a container.
pub type Postgres = Server<PostgresKind>;

impl Kind for PostgresKind {
    const NAME: &'static str = "PostgreSQL";
    const PORT: u16 = 5432;
    const IMAGE_VARIABLE: &'static str = "TIDEGATE_POSTGRES_IMAGE";
    const IMAGES: [&'static str; 2] = ["postgres:15", "tidegate/postgres:15"];

    fn environment() -> Vec<(&'static str, &'static str)> {
        vec![("POSTGRES_PASSWORD", SUPERUSER_PASSWORD)]
    }

    fn command(settings: &[&str]) -> Vec<String> {
        let settings = settings.iter().flat_map(|setting| ["-c".to_owned(), (*setting).to_owned()]);
        std::iter::once("postgres".to_owned()).chain(settings).collect()
    }

    async fn probe(server: &Server<Self>) -> Result<()> {
        server.session("postgres").await?.exec("SELECT 1").await
    }
}

impl Postgres {
    /// A new server, ready, with the role of Tidegate.
    pub async fn start_new(settings: &[&str]) -> Result<Self> {
        let server = Self::launch(settings, &[]).await?;
        server.exec("postgres", SET_UP).await?;
        Ok(server)
    }

    /// The same from an image that has PostGIS.
    pub async fn start_with_postgis(settings: &[&str]) -> Result<Self> {
        let images = ["postgis/postgis:15-3.3", "tidegate/postgis:15"];
        let image = image_of("PostGIS", "TIDEGATE_POSTGIS_IMAGE", images).await?;
        let server = Self::launch_from(&image, settings, &[]).await?;
        server.exec("postgres", SET_UP).await?;
        Ok(server)
    }

    /// Makes a hot standby of the server: it recovers for as long as it is not promoted.
    pub async fn become_standby(&self) -> Result<()> {
        let signal = "DO $$ BEGIN EXECUTE format('COPY (SELECT) TO %L',
            current_setting('data_directory') || '/standby.signal'); END $$";
        self.exec("postgres", signal).await?;
        self.restart().await
    }

    /// Makes a primary of a standby, and waits until it is one.
    pub async fn promote(&self) -> Result<()> {
        self.exec("postgres", "SELECT pg_promote()").await
    }

    /// A connection as superuser.
    pub async fn session(&self, db: &str) -> Result<PgSession> {
        self.session_as(SUPERUSER, SUPERUSER_PASSWORD, db).await
    }

    pub async fn session_as(&self, user: &str, password: &str, db: &str) -> Result<PgSession> {
        PgSession::connect(self.addr(), user, password, db).await
    }

    /// Runs statements separated by `;` on a new connection as superuser.
    pub async fn exec(&self, db: &str, sql: &str) -> Result<()> {
        self.session(db).await?.exec(sql).await
    }

    /// The rows of a query, on a new connection as superuser.
    pub async fn rows(&self, db: &str, sql: &str) -> Result<Vec<TextRow>> {
        self.session(db).await?.rows(sql).await
    }

    /// The first column of the first row.
    pub async fn scalar(&self, db: &str, sql: &str) -> Result<Option<String>> {
        Ok(first(self.rows(db, sql).await?))
    }
}

/// One connection to PostgreSQL.
pub struct PgSession {
    client: Client,
}

impl PgSession {
    /// Connects to any address: a server's own, or that of a proxy before it.
    pub async fn connect(addr: SocketAddr, user: &str, password: &str, db: &str) -> Result<Self> {
        let mut config = Config::new();
        config.host(addr.ip().to_string()).port(addr.port()).user(user).password(password).dbname(db);
        let (client, connection) =
            config.connect(NoTls).await.with_context(|| format!("{user} cannot connect to PostgreSQL"))?;
        tokio::spawn(connection);
        Ok(Self { client })
    }

    /// Runs statements separated by `;`.
    pub async fn exec(&self, sql: &str) -> Result<()> {
        self.client.batch_execute(sql).await.with_context(|| format!("PostgreSQL: {}", abridged(sql)))
    }

    pub async fn rows(&self, sql: &str) -> Result<Vec<TextRow>> {
        let answer = self.client.simple_query(sql).await;
        let answer = answer.with_context(|| format!("PostgreSQL: {}", abridged(sql)))?;
        let rows = answer.iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        Ok(rows.map(|row| (0..row.len()).map(|i| row.get(i).map(str::to_owned)).collect()).collect())
    }

    pub async fn scalar(&self, sql: &str) -> Result<Option<String>> {
        Ok(first(self.rows(sql).await?))
    }

    /// The connection itself, for what needs the driver.
    pub fn client(&self) -> &Client {
        &self.client
    }
}

/// `text` as a PostgreSQL string literal.
pub fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// `name` as a PostgreSQL identifier.
pub fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
