//! Certificates by the openssl command: an authority of a test's own, and what it signs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

/// Days that certificates are good for: longer than any test runs.
const DAYS: &str = "2";

const NEW_KEY: [&str; 5] = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];

/// An authority with a folder for what it signs.
#[derive(Debug)]
pub struct Authority {
    folder: TempDir,
}

/// Files of a certificate and its key.
#[derive(Debug, Clone)]
pub struct Pair {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

impl Pair {
    /// Both as PEM.
    pub fn read(&self) -> Result<(String, String)> {
        Ok((fs::read_to_string(&self.certificate)?, fs::read_to_string(&self.key)?))
    }
}

impl Authority {
    pub fn new() -> Result<Self> {
        let authority = Self { folder: TempDir::new()? };
        let mut command = Command::new("openssl");
        command.args(["req", "-x509", "-days", DAYS, "-subj", "/CN=Test authority"]).args(NEW_KEY);
        run(command.arg("-out").arg(authority.path("ca.pem")).arg("-keyout").arg(authority.path("ca.key")))?;
        Ok(authority)
    }

    /// Its own certificate.
    pub fn certificate(&self) -> PathBuf {
        self.path("ca.pem")
    }

    /// Signs a certificate for `subject`, made out to the DNS name `host` if there is one.
    pub fn sign(&self, subject: &str, host: Option<&str>) -> Result<Pair> {
        let file = |extension: &str| self.path(&format!("{subject}.{extension}"));
        let (request, extensions) = (file("csr"), file("ext"));
        let pair = Pair { certificate: file("pem"), key: file("key") };
        let name = host.map(|host| format!("subjectAltName = DNS:{host}\n")).unwrap_or_default();
        fs::write(&extensions, format!("basicConstraints = CA:FALSE\n{name}"))?;
        let mut command = Command::new("openssl");
        command.args(["req", "-new", "-subj", &format!("/CN={subject}")]).args(NEW_KEY);
        run(command.arg("-out").arg(&request).arg("-keyout").arg(&pair.key))?;
        let mut command = Command::new("openssl");
        command.args(["x509", "-req", "-days", DAYS, "-CAcreateserial"]);
        command.arg("-in").arg(&request).arg("-extfile").arg(&extensions).arg("-out").arg(&pair.certificate);
        run(command.arg("-CA").arg(self.path("ca.pem")).arg("-CAkey").arg(self.path("ca.key")))?;
        Ok(pair)
    }

    fn path(&self, name: &str) -> PathBuf {
        Path::new(self.folder.path()).join(name)
    }
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.output().context("cannot start openssl")?;
    ensure!(output.status.success(), "openssl: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}
