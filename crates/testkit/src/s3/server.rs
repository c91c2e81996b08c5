//! Servers that speak S3, each a real one, on loopback.

#![allow(
    clippy::disallowed_methods,
    reason = "it writes a server's configuration and waits until the server answers"
)]

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use super::boto::Boto;
use super::guarded::{Guarded, room};
use super::keys::{Keys, LIMITED_BUCKET, configuration};
use super::ports;
use super::programs::{installed, script};

const PAUSE: Duration = Duration::from_millis(25);
/// A server that does not answer for so many pauses, a minute and a half or more, never will.
const PATIENCE: u32 = 3_600;
/// How often one that finds a port taken is started anew.
const STARTS: u32 = 5;
/// Larger than what SeaweedFS keeps beside an object's name, so that the part that keeps content is asked, too.
static LARGE: [u8; 100_000] = [b'x'; 100_000];

/// Which server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Brand {
    /// SeaweedFS: conditional writes, identities and policies.
    Seaweed,
    /// moto in server mode, one request at a time: conditional writes, no authorisation.
    Moto,
    /// `rclone serve s3`: answers 200 and ignores preconditions.
    Rclone,
}

/// A server that runs. It ends when it is dropped, or with the process.
#[derive(Debug)]
pub struct Server {
    brand: Brand,
    address: SocketAddr,
    boto: Mutex<Boto>,
    prefixes: AtomicU64,
    _process: Guarded,
}

impl Server {
    /// The name of the bucket for tests, on every server.
    pub const BUCKET: &str = "garret-tests";

    /// Starts a SeaweedFS.
    pub fn seaweed() -> Self {
        Self::start(Brand::Seaweed)
    }

    /// Starts a moto.
    pub fn moto() -> Self {
        Self::start(Brand::Moto)
    }

    /// Starts an rclone.
    pub fn rclone() -> Self {
        Self::start(Brand::Rclone)
    }

    /// The SeaweedFS of this process, started when first asked for.
    pub fn shared_seaweed() -> &'static Self {
        static SHARED: OnceLock<Server> = OnceLock::new();
        SHARED.get_or_init(Self::seaweed)
    }

    /// A moto of this process, started when first asked for; always the same one on one thread. It does one thing at a time, so there are
    /// two, and tests side by side do not wait for each other.
    pub fn shared_moto() -> &'static Self {
        static SHARED: [OnceLock<Server>; 2] = [const { OnceLock::new() }; 2];
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static MINE: usize = THREADS.fetch_add(1, Ordering::Relaxed) % SHARED.len();
        }
        SHARED[MINE.with(|mine| *mine)].get_or_init(Self::moto)
    }

    /// Which server it is.
    pub fn brand(&self) -> Brand {
        self.brand
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where it listens, as a URL.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The keys that may do everything here.
    pub fn keys(&self) -> Keys {
        Keys::admin()
    }

    /// The bucket for tests.
    pub fn bucket(&self) -> &'static str {
        Self::BUCKET
    }

    /// A prefix that no other test has, without a slash at its end.
    pub fn prefix(&self) -> String {
        let number = self.prefixes.fetch_add(1, Ordering::Relaxed);
        format!("test-{}-{number}", std::process::id())
    }

    /// boto3 in the [bucket](Self::bucket), one caller at a time.
    pub fn boto(&self) -> MutexGuard<'_, Boto> {
        self.boto.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(brand: Brand) -> Self {
        let mut log = String::new();
        for _ in 0..STARTS {
            match Self::try_start(brand) {
                Ok(server) => return server,
                Err(said) => log = said,
            }
        }
        panic!("{brand:?} does not start: {log}");
    }

    /// Gives the end of its log where it ends before it answers.
    fn try_start(brand: Brand) -> Result<Self, String> {
        let room = room();
        let plan = Plan::of(brand, &room);
        let mut process = Guarded::start(&room, &plan.leftovers, &plan.command);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, plan.port));
        wait_for(&mut process, || {
            TcpStream::connect(address).map_err(|error| error.to_string())
        })?;
        let endpoint = format!("http://{address}");
        let keys = Keys::admin();
        if brand == Brand::Seaweed {
            make_bucket(&mut process, &mut Boto::new(&endpoint, &keys, LIMITED_BUCKET))?;
        }
        let mut boto = Boto::new(&endpoint, &keys, Self::BUCKET);
        make_bucket(&mut process, &mut boto)?;
        wait_for(&mut process, || boto.try_put("ready", &LARGE, &[]))?;
        boto.delete("ready");
        Ok(Self {
            brand,
            address,
            boto: Mutex::new(boto),
            prefixes: AtomicU64::new(0),
            _process: process,
        })
    }
}

/// A first try may fail after the bucket was made.
fn make_bucket(process: &mut Guarded, boto: &mut Boto) -> Result<(), String> {
    wait_for(process, || match boto.make_bucket() {
        Err(failure) if failure.starts_with("BucketAlready") => Ok(()),
        made => made,
    })
}

/// Asks until the answer is good; gives the end of the log where the server has ended or never gives one.
pub(super) fn wait_for<T>(process: &mut Guarded, mut ask: impl FnMut() -> Result<T, String>) -> Result<T, String> {
    let mut last = String::new();
    for _ in 0..PATIENCE {
        match ask() {
            Ok(answer) => return Ok(answer),
            Err(failure) => last = failure,
        }
        if let Some(log) = process.ended() {
            return Err(log);
        }
        std::thread::sleep(PAUSE);
    }
    Err(format!("{last}\n{}", process.end()))
}

/// How a server is started.
struct Plan {
    command: Vec<String>,
    port: u16,
    /// Files outside its directory that it does not remove when it is killed.
    leftovers: Vec<String>,
}

impl Plan {
    fn of(brand: Brand, room: &Path) -> Self {
        match brand {
            Brand::Seaweed => Self::seaweed(room),
            Brand::Moto => Self::moto(),
            Brand::Rclone => Self::rclone(room),
        }
    }

    fn new(program: &str, arguments: Vec<String>, port: u16) -> Self {
        let program = installed(program).to_str().expect("its path is UTF-8").to_owned();
        Self {
            command: [vec![program], arguments].concat(),
            port,
            leftovers: Vec::new(),
        }
    }

    /// Master, volume server, filer and S3 gateway in one process, with a port and one for gRPC each. The parts that no test needs are
    /// off, reports to its makers included.
    fn seaweed(room: &Path) -> Self {
        let identities = room.join("identities.json");
        std::fs::write(&identities, configuration().to_string()).expect("the directory is ours");
        let ports: [u16; 8] = ports::free();
        let [master, master_grpc, volume, volume_grpc, filer, filer_grpc, s3, s3_grpc] = ports;
        let shown = |path: &Path| path.to_str().expect("its path is UTF-8").to_owned();
        let arguments = vec![
            "server".to_owned(),
            format!("-dir={}", shown(room)),
            "-ip=127.0.0.1".to_owned(),
            "-ip.bind=127.0.0.1".to_owned(),
            "-master.telemetry=false".to_owned(),
            format!("-master.port={master}"),
            format!("-master.port.grpc={master_grpc}"),
            "-master.volumeSizeLimitMB=1024".to_owned(),
            format!("-volume.port={volume}"),
            format!("-volume.port.grpc={volume_grpc}"),
            "-volume.max=50".to_owned(),
            "-filer".to_owned(),
            format!("-filer.port={filer}"),
            format!("-filer.port.grpc={filer_grpc}"),
            format!("-filer.localSocket={}", shown(&room.join("filer.sock"))),
            "-filer.saveToFilerLimit=65536".to_owned(),
            "-s3".to_owned(),
            format!("-s3.port={s3}"),
            format!("-s3.port.grpc={s3_grpc}"),
            "-s3.port.iceberg=0".to_owned(),
            "-s3.port.lance=0".to_owned(),
            format!("-s3.localSocket={}", shown(&room.join("s3.sock"))),
            "-s3.autoCreateBucket=false".to_owned(),
            format!("-s3.config={}", shown(&identities)),
        ];
        let sockets = [
            ("master", master_grpc),
            ("volume", volume_grpc),
            ("filer", filer_grpc),
            ("s3", s3_grpc),
        ];
        let leftovers = sockets.map(|(part, port)| format!("/tmp/seaweedfs-{part}-grpc-{port}.sock"));
        Self {
            leftovers: leftovers.to_vec(),
            ..Self::new("weed", arguments, s3)
        }
    }

    fn moto() -> Self {
        let [port] = ports::free();
        let server = script("moto_one_at_a_time.py");
        let server = server.to_str().expect("its path is UTF-8").to_owned();
        Self::new("python", vec![server, port.to_string()], port)
    }

    fn rclone(room: &Path) -> Self {
        let [port] = ports::free();
        let keys = Keys::admin();
        let served = room.join("served");
        std::fs::create_dir(&served).expect("the directory is ours");
        let arguments = [
            "serve",
            "s3",
            "--addr",
            &format!("127.0.0.1:{port}"),
            "--auth-key",
            &format!("{},{}", keys.access_key_id, keys.secret_access_key),
            served.to_str().expect("its path is UTF-8"),
        ];
        Self::new("rclone", arguments.map(str::to_owned).to_vec(), port)
    }
}
