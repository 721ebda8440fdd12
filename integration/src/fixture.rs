//! What one test works on: a database of its own on either side.

use anyhow::{Result, bail};

use crate::compare::{self, Comparison};
use crate::mysql::{self, MySqlSession, TextRow};
use crate::postgres::{self, PgSession, TARGET_ROLE};
use crate::process::Config;
use crate::servers::Servers;

/// How many differences an error shows.
const SHOWN_DIFFERENCES: usize = 20;

/// A source database, and a target database that replicates it into a schema of the same name.
#[derive(Debug)]
pub struct Fixture<'a> {
    pub servers: &'a Servers,
    /// Name of the MySQL database, and of the PostgreSQL schema that mirrors it.
    pub source: String,
    /// Name of the PostgreSQL database.
    pub target: String,
}

impl<'a> Fixture<'a> {
    pub(crate) async fn create(servers: &'a Servers, name: String) -> Result<Self> {
        let (source, target) = (name.clone(), name);
        servers.mysql.exec("", &format!("CREATE DATABASE {}", mysql::identifier(&source))).await?;
        let create = format!("CREATE DATABASE {} OWNER {TARGET_ROLE}", postgres::identifier(&target));
        servers.postgres.exec("postgres", &create).await?;
        Ok(Self { servers, source, target })
    }

    /// Runs statements separated by `;` in the source database.
    pub async fn source(&self, sql: &str) -> Result<()> {
        self.servers.mysql.exec(&self.source, sql).await
    }

    /// Runs statements separated by `;` in the target database, as superuser.
    pub async fn target(&self, sql: &str) -> Result<()> {
        self.target_session().await?.exec(sql).await
    }

    pub async fn source_rows(&self, sql: &str) -> Result<Vec<TextRow>> {
        self.servers.mysql.rows(&self.source, sql).await
    }

    /// Rows of the target. Unqualified names are those of the mirrored schema.
    pub async fn target_rows(&self, sql: &str) -> Result<Vec<TextRow>> {
        self.target_session().await?.rows(sql).await
    }

    pub async fn source_scalar(&self, sql: &str) -> Result<Option<String>> {
        self.servers.mysql.scalar(&self.source, sql).await
    }

    pub async fn target_scalar(&self, sql: &str) -> Result<Option<String>> {
        Ok(mysql::first(self.target_rows(sql).await?))
    }

    /// A connection to the source database as root.
    pub async fn source_session(&self) -> Result<MySqlSession> {
        self.servers.mysql.session(&self.source).await
    }

    /// A connection to the target database as superuser, with the mirrored schema in its path.
    pub async fn target_session(&self) -> Result<PgSession> {
        let session = self.servers.postgres.session(&self.target).await?;
        session.exec(&format!("SET search_path = {}, public", postgres::identifier(&self.source))).await?;
        Ok(session)
    }

    /// The minimal configuration that replicates the source database into the target.
    pub fn config(&self) -> Config {
        Config::new(self.servers.mysql.addr(), self.servers.postgres.addr(), &self.source, &self.target)
    }

    /// Every row of every table of the source database against the target.
    pub async fn compare(&self) -> Result<Comparison> {
        let mut source = self.source_session().await?;
        let target = self.target_session().await?;
        compare::compare(&mut source, &self.source, &target, &self.source).await
    }

    /// Fails with the differences, or if there was no table to compare.
    pub async fn assert_same(&self) -> Result<()> {
        let found = self.compare().await?;
        if found.tables == 0 {
            bail!("database {} has no table: nothing was compared", self.source);
        }
        if found.differences.is_empty() {
            return Ok(());
        }
        let shown: Vec<String> =
            found.differences.iter().take(SHOWN_DIFFERENCES).map(ToString::to_string).collect();
        bail!("{} differences between source and target:\n{}", found.differences.len(), shown.join("\n"))
    }
}
