//! A MariaDB that stands in for MySQL, for tools that can't log in to MySQL 9.

use anyhow::Result;

use crate::mysql::MySqlSession;
use crate::servers::{Kind, Server};

/// The user that tools connect as, and its password.
pub const ROOT: &str = "root";
pub const ROOT_PASSWORD: &str = "canary-mariadb-root";

#[derive(Debug)]
pub struct MariaDbKind;

/// A MariaDB server in a container.
pub type MariaDb = Server<MariaDbKind>;

impl Kind for MariaDbKind {
    const NAME: &'static str = "MariaDB";
    const PORT: u16 = 3306;
    const IMAGE_VARIABLE: &'static str = "TIDEGATE_MARIADB_IMAGE";
    const IMAGES: [&'static str; 2] = ["mariadb:10.11", "tidegate/mariadb:10.11"];

    fn environment() -> Vec<(&'static str, &'static str)> {
        vec![("MARIADB_ROOT_PASSWORD", ROOT_PASSWORD)]
    }

    fn command(args: &[&str]) -> Vec<String> {
        args.iter().map(ToString::to_string).collect()
    }

    async fn probe(server: &Server<Self>) -> Result<()> {
        server.session("").await?.exec("SELECT 1").await
    }
}

impl MariaDb {
    /// A new server, ready, with more arguments for `mariadbd`.
    pub async fn start_new(args: &[&str]) -> Result<Self> {
        Self::launch(args, &[]).await
    }

    /// A connection as root. Empty `db` for none.
    pub async fn session(&self, db: &str) -> Result<MySqlSession> {
        MySqlSession::connect(self.addr(), ROOT, ROOT_PASSWORD, db).await
    }
}
