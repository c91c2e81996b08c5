//! A sandbox of one's own: commands run on the host, by another program that takes the network away.
//!
//! The program is `unshare` of util-linux. Everything else (copies of the bench, processes that end, what was done) is what the sandbox `host`
//! does, so that this one only says how a command is started, and what that enforces. The tests run Garret's conformance suite over it: what it
//! claims is tried, and what it does not claim is not asked.

#![allow(clippy::disallowed_methods, reason = "a sandbox starts programs")]

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use garret_core::{
    CommandProgram, CommandStdin, Effect, Effects, EffectsMark, Error, ErrorKind, Guard, GuardStatus, Layer, Limits,
    Network, OpenSandbox, Process, Result, Sandbox, SandboxCommand, SandboxRequest,
};
use garret_sandbox::host::HostSandbox;

/// The program and its options: a user namespace, which anybody may make, and a network without anything in it.
const PREFIX: &[&str] = &["/usr/bin/unshare", "--user", "--map-current-user", "--net", "--"];

/// The host without its network.
#[derive(Debug, Clone)]
pub struct Offline {
    host: HostSandbox,
}

impl Offline {
    /// Takes the network away from the commands of `host`.
    pub fn new(host: HostSandbox) -> Self {
        Self { host }
    }
}

#[async_trait]
impl Sandbox for Offline {
    fn kind(&self) -> &'static str {
        "offline"
    }

    async fn probe(&self) -> Vec<GuardStatus> {
        told(self.host.probe().await)
    }

    async fn open(&self, request: SandboxRequest) -> Result<Arc<dyn OpenSandbox>> {
        let enforced = self.probe().await;
        if let Some(missing) = enforced
            .iter()
            .find(|one| !one.is_enforced && request.require.contains(&one.guard))
        {
            let message = format!(
                "`{}` is required and not enforced: {}",
                missing.guard.as_str(),
                missing.by
            );
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let network = request.network;
        let request = SandboxRequest {
            require: Vec::new(),
            ..request
        };
        Ok(Arc::new(OpenOffline {
            host: self.host.open(request).await?,
            network,
            enforced,
        }))
    }
}

/// What the host says, except of the network: whether that can be taken away is tried.
fn told(mut enforced: Vec<GuardStatus>) -> Vec<GuardStatus> {
    let mut trial = std::process::Command::new(PREFIX[0]);
    let is_enforced = trial
        .args(&PREFIX[1..])
        .arg("/bin/true")
        .status()
        .is_ok_and(|status| status.success());
    for one in enforced.iter_mut().filter(|one| one.guard == Guard::Network) {
        one.is_enforced = is_enforced;
        (one.by, one.remedy) = match is_enforced {
            true => ("unshare of util-linux".to_owned(), None),
            false => (
                "unshare does not work here".to_owned(),
                Some("install util-linux, and allow user namespaces".to_owned()),
            ),
        };
    }
    enforced
}

#[derive(Debug)]
struct OpenOffline {
    host: Arc<dyn OpenSandbox>,
    network: Network,
    enforced: Vec<GuardStatus>,
}

impl OpenOffline {
    fn on(&self, host: Arc<dyn Layer>) -> Arc<dyn Layer> {
        Arc::new(OfflineLayer {
            host,
            network: self.network,
        })
    }
}

#[async_trait]
impl OpenSandbox for OpenOffline {
    fn guard_statuses(&self) -> &[GuardStatus] {
        &self.enforced
    }

    fn environment(&self) -> BTreeMap<String, String> {
        self.host.environment()
    }

    async fn create_layer(&self) -> Result<Arc<dyn Layer>> {
        Ok(self.on(self.host.create_layer().await?))
    }

    async fn leftover_layers(&self) -> Result<Vec<Arc<dyn Layer>>> {
        let left = self.host.leftover_layers().await?;
        Ok(left.into_iter().map(|layer| self.on(layer)).collect())
    }

    async fn close(&self) -> Result<()> {
        self.host.close().await
    }
}

#[derive(Debug)]
struct OfflineLayer {
    host: Arc<dyn Layer>,
    network: Network,
}

impl OfflineLayer {
    /// The program that is run would start and then not find its own; a command that cannot start must say so before.
    async fn check(&self, name: &str, command: &SandboxCommand) -> Result<()> {
        let asked = ["/bin/sh", "-c", "command -v -- \"$1\" >/dev/null", "sh", name];
        let question = SandboxCommand {
            program: CommandProgram::Arguments(asked.map(str::to_owned).to_vec()),
            stdin: CommandStdin::Closed,
            limits: Limits::default(),
            ..command.clone()
        };
        let mut answer = self.host.start_process(question).await?;
        match answer.wait().await?.ended.exit_code() {
            0 => Ok(()),
            _ => Err(Error::new(ErrorKind::NotFound, "program not found").hint("check its name and the PATH")),
        }
    }
}

#[async_trait]
impl Layer for OfflineLayer {
    fn id(&self) -> &str {
        self.host.id()
    }

    async fn start_process(&self, mut command: SandboxCommand) -> Result<Box<dyn Process>> {
        if self.network == Network::Full {
            return self.host.start_process(command).await;
        }
        let own = match &command.program {
            CommandProgram::Arguments(arguments) => arguments.clone(),
            CommandProgram::Shell(text) => vec!["/bin/sh".to_owned(), "-c".to_owned(), text.clone()],
        };
        let name = own.first().ok_or_else(|| Error::invalid("no program is given"))?;
        self.check(name, &command).await?;
        let prefix = PREFIX.iter().map(|word| (*word).to_owned());
        command.program = CommandProgram::Arguments(prefix.chain(own).collect());
        self.host.start_process(command).await
    }

    async fn place_entries(&self, effects: Vec<Effect>) -> Result<()> {
        self.host.place_entries(effects).await
    }

    async fn pause(&self) -> Result<u64> {
        self.host.pause().await
    }

    async fn resume(&self) -> Result<()> {
        self.host.resume().await
    }

    async fn read_effects(&self, since: Option<&EffectsMark>) -> Result<Effects> {
        self.host.read_effects(since).await
    }

    async fn lift(&self) -> Result<()> {
        self.host.lift().await
    }

    async fn remove(&self) -> Result<()> {
        self.host.remove().await
    }
}
