//! Database servers in containers: one shared pair per test process, and pairs of one's own.
//!
//! A test that only writes tables takes [`Servers::shared`] and databases of its own from
//! [`Servers::fixture`]. A test that changes globals, restarts or kills a server, or writes what halts
//! every pipeline that follows the binlog (a statement-format change, an incident) starts
//! [`Servers::own`].

use std::collections::hash_map::RandomState;
use std::fmt;
use std::future::Future;
use std::hash::{BuildHasher, Hasher};
use std::marker::PhantomData;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, anyhow, bail, ensure};
use testcontainers::bollard::models::PortBinding;
use testcontainers::bollard::query_parameters::{
    InspectContainerOptions, KillContainerOptionsBuilder, RestartContainerOptionsBuilder,
    StartContainerOptions, StopContainerOptionsBuilder,
};
use testcontainers::core::client::docker_client_instance;
use testcontainers::runners::AsyncRunner;
use testcontainers::{ContainerAsync, ContainerRequest, GenericImage, ImageExt};
use tokio::io::AsyncWriteExt;
use tokio::sync::OnceCell;

use crate::fixture::Fixture;
use crate::mysql::MySql;
use crate::postgres::Postgres;
use crate::wait;

/// The label that ties a container to the process that may remove it.
const OWNER_LABEL: &str = "tidegate.owner";

/// Seconds that a server gets to shut down in an orderly way.
const STOP_SECONDS: i32 = 60;

/// Host ports are fixed, so that a server keeps its address over a restart, and lie below the range
/// from which the kernel serves outgoing connections, so that nothing takes them meanwhile.
const HOST_PORTS: std::ops::Range<u16> = 20_000..30_000;

/// Tries to find a host port that is still free when the container binds it.
const PORT_ATTEMPTS: u32 = 10;

/// A MySQL and a PostgreSQL server.
#[derive(Debug)]
pub struct Servers {
    pub mysql: MySql,
    pub postgres: Postgres,
}

impl Servers {
    /// The pair that all tests of this process share. Started by the first that asks, without the
    /// fsyncs that only a crash of the machine would need; removed when the process ends.
    pub async fn shared() -> Result<&'static Self> {
        static SHARED: OnceCell<Servers> = OnceCell::const_new();
        SHARED
            .get_or_try_init(|| {
                Self::own(
                    &["--sync-binlog=0", "--innodb-flush-log-at-trx-commit=2", "--max-connections=400"],
                    &["fsync=off", "max_connections=200"],
                )
            })
            .await
    }

    /// A pair of one's own, with more arguments for `mysqld` (`--name=value`) and settings for
    /// `postgres` (`name=value`). Removed when it is dropped.
    pub async fn own(mysql_args: &[&str], postgres_settings: &[&str]) -> Result<Self> {
        let (mysql, postgres) =
            tokio::try_join!(MySql::start_new(mysql_args), Postgres::start_new(postgres_settings))?;
        Ok(Self { mysql, postgres })
    }

    /// A pair that the tests of spatial columns share: its PostgreSQL has PostGIS beside it, of which a
    /// database has nothing until the extension is created in it.
    pub async fn with_postgis() -> Result<&'static Self> {
        static SHARED: OnceCell<Servers> = OnceCell::const_new();
        let start = || async {
            let mysql = MySql::start_new(&["--sync-binlog=0", "--innodb-flush-log-at-trx-commit=2"]);
            let (mysql, postgres) = tokio::try_join!(mysql, Postgres::start_with_postgis(&["fsync=off"]))?;
            Ok(Self { mysql, postgres })
        };
        SHARED.get_or_try_init(start).await
    }

    /// A source database and a target database for one test, named after it and empty.
    pub async fn fixture(&self, name: &str) -> Result<Fixture<'_>> {
        static NUMBER: AtomicU32 = AtomicU32::new(1);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Fixture::create(self, format!("{name}_{number}")).await
    }
}

/// What differs between the kinds of server.
pub trait Kind: fmt::Debug + Sized + Send + Sync {
    /// For messages, and in the names of environment variable and images.
    const NAME: &'static str;
    const PORT: u16;
    /// The variable that names the image to use.
    const IMAGE_VARIABLE: &'static str;
    /// The images looked for when the variable is not set.
    const IMAGES: [&'static str; 2];

    fn environment() -> Vec<(&'static str, &'static str)>;
    fn command(args: &[&str]) -> Vec<String>;

    /// Fails as long as the server does not answer a query.
    fn probe(server: &Server<Self>) -> impl Future<Output = Result<()>> + Send;
}

/// One database server in a container, at an address that stays over restarts.
#[derive(Debug)]
pub struct Server<K: Kind> {
    container: ContainerAsync<GenericImage>,
    port: u16,
    kind: PhantomData<K>,
}

impl<K: Kind> Server<K> {
    /// Starts a container, with more variables in its environment, and waits until the server
    /// answers a query.
    pub(crate) async fn launch(args: &[&str], environment: &[(&str, &str)]) -> Result<Self> {
        Self::launch_from(&image::<K>().await?, args, environment).await
    }

    /// As [`launch`](Self::launch), from this image.
    pub(crate) async fn launch_from(
        image: &str,
        args: &[&str],
        environment: &[(&str, &str)],
    ) -> Result<Self> {
        let mut attempt = 0;
        loop {
            let port = free_port()?;
            match request::<K>(image, args, environment, port, None).start().await {
                Ok(container) => {
                    let server = Self { container, port, kind: PhantomData };
                    server.answers().await?;
                    return Ok(server);
                }
                Err(error) if attempt < PORT_ATTEMPTS && port_was_taken(&error.to_string()) => attempt += 1,
                Err(error) => return Err(error).context(format!("cannot start {} from {image}", K::NAME)),
            }
        }
    }

    /// Starts a server with these arguments on the data and at the address of this one, which is
    /// stopped and has to outlive it.
    pub async fn start_instead(&self, args: &[&str]) -> Result<Self> {
        let data_of = Some(self.container_id());
        let request = request::<K>(&image::<K>().await?, args, &[], self.port, data_of);
        let server = Self { container: request.start().await?, port: self.port, kind: PhantomData };
        server.answers().await?;
        Ok(server)
    }

    pub fn addr(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// The address at which other containers reach the server.
    pub async fn inner_addr(&self) -> Result<SocketAddr> {
        let found = docker_client_instance()
            .await?
            .inspect_container(self.container_id(), None::<InspectContainerOptions>)
            .await?;
        let networks = found.network_settings.and_then(|settings| settings.networks).unwrap_or_default();
        let addresses = networks.into_values().filter_map(|network| network.ip_address);
        let address = addresses.into_iter().find(|address| !address.is_empty());
        let address: IpAddr = address.context("the container is in no network")?.parse()?;
        Ok((address, K::PORT).into())
    }

    pub fn container_id(&self) -> &str {
        self.container.id()
    }

    /// The image that the container was made from.
    pub(crate) async fn image(&self) -> Result<String> {
        let docker = docker_client_instance().await?;
        let found = docker.inspect_container(self.container_id(), None::<InspectContainerOptions>).await?;
        found.image.context("the container has no image")
    }

    /// Shuts down in an orderly way and starts again.
    pub async fn restart(&self) -> Result<()> {
        let options = RestartContainerOptionsBuilder::new().t(STOP_SECONDS).build();
        docker_client_instance().await?.restart_container(self.container_id(), Some(options)).await?;
        self.answers().await
    }

    /// Shuts down in an orderly way.
    pub async fn stop(&self) -> Result<()> {
        let options = StopContainerOptionsBuilder::new().t(STOP_SECONDS).build();
        Ok(docker_client_instance().await?.stop_container(self.container_id(), Some(options)).await?)
    }

    /// SIGKILL to the server.
    pub async fn kill(&self) -> Result<()> {
        let options = KillContainerOptionsBuilder::new().signal("SIGKILL").build();
        Ok(docker_client_instance().await?.kill_container(self.container_id(), Some(options)).await?)
    }

    /// Starts again after [`stop`](Self::stop) or [`kill`](Self::kill), and waits until it answers.
    pub async fn start(&self) -> Result<()> {
        let docker = docker_client_instance().await?;
        docker.start_container(self.container_id(), None::<StartContainerOptions>).await?;
        self.answers().await
    }

    /// Freezes every process of the server: connections stay open and nothing answers.
    pub async fn pause(&self) -> Result<()> {
        Ok(self.container.pause().await?)
    }

    pub async fn unpause(&self) -> Result<()> {
        Ok(self.container.unpause().await?)
    }

    /// What the server has written to its log, both streams.
    pub async fn log(&self) -> Result<String> {
        let mut log = self.container.stdout_to_vec().await?;
        log.extend(self.container.stderr_to_vec().await?);
        Ok(String::from_utf8_lossy(&log).into_owned())
    }

    /// Writes a file that none but `owner` may read, in the server's container.
    pub async fn put_file(&self, path: &str, content: &str, owner: &str) -> Result<()> {
        let script = "umask 077; cat > \"$1\" && chown \"$2\" \"$1\"";
        let mut docker = tokio::process::Command::new("docker")
            .args(["exec", "-i", self.container_id(), "sh", "-c", script, "sh", path, owner])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("cannot start docker")?;
        let mut input = docker.stdin.take().context("docker has no input")?;
        input.write_all(content.as_bytes()).await?;
        drop(input);
        let output = docker.wait_with_output().await?;
        ensure!(output.status.success(), "{path}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }

    /// Waits until the server answers a query; a server that has ended is an error at once.
    async fn answers(&self) -> Result<()> {
        wait::until(format_args!("{} to answer on {}", K::NAME, self.addr()), || async {
            let Err(error) = K::probe(self).await else { return Ok(wait::Look::Done(())) };
            if !self.container.is_running().await? {
                bail!("{} has ended: {}", K::NAME, tail(&self.log().await?, 20));
            }
            Ok(wait::Look::NotYet(format!("{error:#}")))
        })
        .await
    }
}

/// The last lines of a log.
pub(crate) fn tail(log: &str, lines: usize) -> String {
    let all: Vec<&str> = log.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

fn request<K: Kind>(
    image: &str,
    args: &[&str],
    environment: &[(&str, &str)],
    port: u16,
    data_of: Option<&str>,
) -> ContainerRequest<GenericImage> {
    watch_containers();
    let (name, tag) = image.rsplit_once(':').unwrap_or((image, "latest"));
    let binding =
        PortBinding { host_ip: Some(Ipv4Addr::LOCALHOST.to_string()), host_port: Some(port.to_string()) };
    let data_of = data_of.map(|container| vec![container.to_owned()]);
    let mut request = GenericImage::new(name, tag)
        .with_mapped_port(port, testcontainers::core::ContainerPort::Tcp(K::PORT))
        .with_host_config_modifier(move |host| {
            let ports = host.port_bindings.get_or_insert_default();
            ports.insert(format!("{}/tcp", K::PORT), Some(vec![binding.clone()]));
            host.volumes_from.clone_from(&data_of);
        })
        .with_label(OWNER_LABEL, std::process::id().to_string())
        .with_cmd(K::command(args));
    for (name, value) in K::environment().iter().chain(environment) {
        request = request.with_env_var(*name, *value);
    }
    request
}

fn port_was_taken(error: &str) -> bool {
    error.contains("already allocated") || error.contains("already in use")
}

/// The image that the environment names, or the first of the known ones that exists here.
async fn image<K: Kind>() -> Result<String> {
    image_of(K::NAME, K::IMAGE_VARIABLE, K::IMAGES).await
}

pub(crate) async fn image_of(name: &str, variable: &str, images: [&str; 2]) -> Result<String> {
    if let Ok(image) = std::env::var(variable) {
        return Ok(image);
    }
    let docker = docker_client_instance().await.context("the Docker daemon does not answer")?;
    for image in images {
        if docker.inspect_image(image).await.is_ok() {
            return Ok(image.to_owned());
        }
    }
    docker.version().await.context("the Docker daemon does not answer: start dockerd, or run ops/test")?;
    Err(anyhow!("no image for {name}: run integration/images/build, or set {variable}"))
}

/// A free TCP port of the loopback interface.
pub fn free_port() -> Result<u16> {
    let range = u64::from(HOST_PORTS.end - HOST_PORTS.start);
    for _ in 0..1000 {
        let offset = u16::try_from(RandomState::new().build_hasher().finish() % range)?;
        let port = HOST_PORTS.start + offset;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no free port in {HOST_PORTS:?}")
}

/// Sees to it that the containers of this process go when it goes, however it ends. Containers in
/// statics are not dropped, so a shell reads from a pipe that closes with this process, and then
/// removes what carries the process's label. It is in a process group of its own, out of Ctrl-C's way.
fn watch_containers() {
    static PIPE: OnceLock<Option<ChildStdin>> = OnceLock::new();
    PIPE.get_or_init(|| {
        let script = format!(
            "cat >/dev/null; docker ps -aq --filter label={OWNER_LABEL}={} | xargs -r docker rm -fv",
            std::process::id()
        );
        let child = Command::new("sh")
            .args(["-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn();
        child.ok().and_then(|mut child| child.stdin.take())
    });
}
