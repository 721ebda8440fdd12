use std::fs;

use openssl::asn1::Asn1Time;
use openssl::hash::MessageDigest;
use openssl::pkey::{PKey, Private};
use openssl::rsa::Rsa;
use openssl::symm::Cipher;
use openssl::x509::{X509, X509NameBuilder};
use tempfile::TempDir;

use super::*;

fn key() -> PKey<Private> {
    PKey::from_rsa(Rsa::generate(2048).unwrap()).unwrap()
}

fn certificate(key: &PKey<Private>) -> X509 {
    let mut name = X509NameBuilder::new().unwrap();
    name.append_entry_by_text("CN", "test").unwrap();
    let name = name.build();
    let mut builder = X509::builder().unwrap();
    builder.set_version(2).unwrap();
    builder.set_subject_name(&name).unwrap();
    builder.set_issuer_name(&name).unwrap();
    builder.set_pubkey(key).unwrap();
    builder.set_not_before(&Asn1Time::days_from_now(0).unwrap()).unwrap();
    builder.set_not_after(&Asn1Time::days_from_now(1).unwrap()).unwrap();
    builder.sign(key, MessageDigest::sha256()).unwrap();
    builder.build()
}

/// A certificate and its key in one file, which serves as each of the three.
pub(crate) fn pem_bundle() -> Vec<u8> {
    let key = key();
    [certificate(&key).to_pem().unwrap(), key.private_key_to_pem_pkcs8().unwrap()].concat()
}

struct Files {
    directory: TempDir,
}

impl Files {
    fn new() -> Self {
        Self { directory: TempDir::new().unwrap() }
    }

    fn write(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.directory.path().join(name);
        fs::write(&path, content).unwrap();
        path
    }
}

fn config(mode: TlsMode) -> TlsConfig {
    TlsConfig { mode, ca_file: None, cert_file: None, key_file: None }
}

#[test]
fn off_needs_no_connector_and_the_others_have_one() {
    assert!(connector(&config(TlsMode::Off)).unwrap().is_none());
    for mode in [TlsMode::EncryptOnly, TlsMode::VerifyCa, TlsMode::VerifyFull] {
        assert!(connector(&config(mode)).unwrap().is_some());
    }
}

#[test]
fn each_mode_verifies_what_its_name_says() {
    let verified = |mode| (!accepts_any_certificate(mode), !accepts_any_host(mode));
    assert_eq!(verified(TlsMode::EncryptOnly), (false, false));
    assert_eq!(verified(TlsMode::VerifyCa), (true, false));
    assert_eq!(verified(TlsMode::VerifyFull), (true, true));
}

#[test]
fn a_client_identity_keeps_its_chain_and_key() {
    let files = Files::new();
    let (leaf_key, ca_key) = (key(), key());
    let (leaf, ca) = (certificate(&leaf_key), certificate(&ca_key));
    let chain = [leaf.to_pem().unwrap(), ca.to_pem().unwrap()].concat();
    let mut config = config(TlsMode::VerifyFull);
    config.cert_file = Some(files.write("cert.pem", &chain));
    config.key_file = Some(files.write("key.pem", &leaf_key.private_key_to_pem_pkcs8().unwrap()));
    let archive = client_pkcs12(&config).unwrap().unwrap();
    let parsed = Pkcs12::from_der(&archive).unwrap().parse2("").unwrap();
    assert_eq!(parsed.cert.unwrap().to_der().unwrap(), leaf.to_der().unwrap());
    assert!(parsed.pkey.unwrap().public_eq(&leaf_key));
    assert_eq!(parsed.ca.unwrap().len(), 1);
    assert!(connector(&config).unwrap().is_some());
}

#[test]
fn unusable_files_are_named() {
    let files = Files::new();
    let (one, other) = (key(), key());
    let garbage = files.write("garbage.pem", b"no PEM");
    let certificate = files.write("cert.pem", &certificate(&one).to_pem().unwrap());
    let wrong_key = files.write("wrong.pem", &other.private_key_to_pem_pkcs8().unwrap());
    let locked = one.private_key_to_pem_pkcs8_passphrase(Cipher::aes_256_cbc(), b"secret").unwrap();
    let locked = files.write("locked.pem", &locked);
    let of = |ca: Option<&PathBuf>, cert: Option<&PathBuf>, key: Option<&PathBuf>| TlsConfig {
        mode: TlsMode::VerifyCa,
        ca_file: ca.cloned(),
        cert_file: cert.cloned(),
        key_file: key.cloned(),
    };
    let missing = files.directory.path().join("missing.pem");
    let cut = files.write("cut.pem", &one.private_key_to_pem_pkcs8().unwrap()[..400]);
    let cases = [
        (of(Some(&missing), None, None), TlsFile::Ca, "missing.pem can't be read: entity not found. Correct"),
        (of(Some(&garbage), None, None), TlsFile::Ca, "garbage.pem does not hold PEM that begins with"),
        (of(Some(&wrong_key), None, None), TlsFile::Ca, "BEGIN CERTIFICATE"),
        (of(None, Some(&certificate), None), TlsFile::Certificate, "both"),
        (of(None, Some(&wrong_key), Some(&wrong_key)), TlsFile::Certificate, "wrong.pem does not hold"),
        (of(None, Some(&certificate), Some(&missing)), TlsFile::Key, "missing.pem can't be read"),
        (of(None, Some(&certificate), Some(&garbage)), TlsFile::Key, "garbage.pem does not hold"),
        (of(None, Some(&certificate), Some(&cut)), TlsFile::Key, "cut.pem does not hold"),
        (
            of(None, Some(&certificate), Some(&locked)),
            TlsFile::Key,
            "locked.pem is encrypted with a passphrase",
        ),
        (of(None, Some(&certificate), Some(&wrong_key)), TlsFile::Key, "cert.pem: put the pair"),
    ];
    for (config, file, text) in cases {
        let error = connector(&config).err().unwrap();
        assert!(error.to_string().contains(text) && error.file() == file, "{error}");
        assert!(problems(&config).iter().any(|problem| problem.to_string() == error.to_string()));
    }
    assert_eq!(problems(&of(Some(&missing), Some(&garbage), Some(&missing))).len(), 3);
}

#[test]
fn a_file_that_may_not_be_read_says_so() {
    let error = TlsError::Read {
        file: TlsFile::Key,
        path: PathBuf::from("/k"),
        kind: io::ErrorKind::PermissionDenied,
    };
    assert_eq!(
        error.to_string(),
        "/k can't be read: permission denied. Let the user that Tidegate runs as read it: chown or chmod"
    );
}
