//! Physical backups of MySQL: the data directory of a stopped server, put back later.

use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use tempfile::NamedTempFile;
use tokio::process::Command;

use crate::mysql::MySql;

/// Where both images, the official and the local one, keep the data.
const DATA: &str = "/var/lib/mysql";

/// A data directory as its server left it.
#[derive(Debug)]
pub struct Backup {
    archive: NamedTempFile,
}

/// Whose server a restored data directory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerUuid {
    /// That of the backup: the server itself was restored.
    Kept,
    /// A new one: another server was set up from the backup.
    New,
}

impl MySql {
    /// Copies the data directory of the stopped server.
    pub async fn back_up(&self) -> Result<Backup> {
        let archive = NamedTempFile::new()?;
        let from = format!("{}:{DATA}/.", self.container_id());
        docker(&["cp", "--archive", &from, "-"], Stdio::null(), archive.reopen()?.into()).await?;
        Ok(Backup { archive })
    }

    /// Puts a copy in the place of the stopped server's data directory.
    pub async fn restore(&self, backup: &Backup, uuid: ServerUuid) -> Result<()> {
        self.in_data_directory("rm -rf ./* ./.[!.]*").await?;
        let to = format!("{}:{DATA}", self.container_id());
        docker(&["cp", "--archive", "-", &to], backup.archive.reopen()?.into(), Stdio::null()).await?;
        match uuid {
            ServerUuid::Kept => Ok(()),
            ServerUuid::New => self.in_data_directory("rm auto.cnf").await,
        }
    }

    /// Runs a script in the data directory of the stopped server.
    async fn in_data_directory(&self, script: &str) -> Result<()> {
        let (id, image) = (self.container_id(), self.image().await?);
        let script = format!("cd {DATA} && {script}");
        let arguments = ["run", "--rm", "--volumes-from", id, "--entrypoint", "sh", &image, "-c", &script];
        docker(&arguments, Stdio::null(), Stdio::null()).await
    }
}

async fn docker(arguments: &[&str], input: Stdio, output: Stdio) -> Result<()> {
    let child = Command::new("docker")
        .args(arguments)
        .stdin(input)
        .stdout(output)
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start docker")?;
    let ended = child.wait_with_output().await?;
    let errors = String::from_utf8_lossy(&ended.stderr);
    ensure!(ended.status.success(), "docker {}: {errors}", arguments.join(" "));
    Ok(())
}
