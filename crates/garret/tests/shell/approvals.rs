//! What somebody sees who is asked about a command or code.

use std::sync::{Arc, Mutex};

use garret::{
    Approval, ApprovalRequest, Approver, CodePolicy, CodeRequest, ContextRequest, DeclaredCapability, EffectsMode,
    FsPolicy, Language, NetworkChoice, PieceRequest, RunRequest, ShellPolicy,
};

use crate::shell::support::{On, Room, each, room_asking};

/// Says yes to everything but what the answer names, and remembers what it was asked.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    pub(crate) requests: Mutex<Vec<ApprovalRequest>>,
    pub(crate) refuses: Mutex<Option<&'static str>>,
}

#[garret::async_trait]
impl Approver for Asked {
    async fn ask(&self, request: ApprovalRequest) -> Approval {
        let refused = self.refuses.lock().unwrap().filter(|word| {
            let texts = request.command.iter().chain(&request.effects);
            texts.into_iter().any(|text| text.contains(word))
        });
        self.requests.lock().unwrap().push(request);
        match refused {
            Some(word) => Approval::Deny {
                reason: format!("no {word}"),
            },
            None => Approval::Allow,
        }
    }
}

impl Asked {
    fn last(&self) -> ApprovalRequest {
        self.requests.lock().unwrap().pop().expect("somebody was asked")
    }
}

async fn room(on: On) -> (Room, Arc<Asked>) {
    let asked = Arc::new(Asked::default());
    let tools = ["run", "start", "run_code", "create_code_context", "run_in_code_context"];
    let room = room_asking(on, asked.clone(), |config| {
        config.capabilities.fs = DeclaredCapability::Options(FsPolicy {
            require_approval: tools.map(str::to_owned).to_vec(),
            ..FsPolicy::default()
        });
        config.capabilities.shell = DeclaredCapability::Options(ShellPolicy {
            secrets: vec!["TOKEN".into()],
            network: NetworkChoice::None,
            ..ShellPolicy::default()
        });
        config.capabilities.code = DeclaredCapability::Options(CodePolicy {
            is_stateful: true,
            ..CodePolicy::default()
        });
        config.env = [("TOKEN".to_owned(), "hunter2hunter2".to_owned())].into();
    })
    .await;
    room.write("src/main", "x").await;
    (room, asked)
}

/// A text that no journal keeps as a whole, with what matters at its end.
fn long(begin: &str, end: &str) -> String {
    format!("{begin}: {} && {end}", "x".repeat(5_000))
}

#[test]
fn whoever_is_asked_about_a_command_sees_all_of_it_without_secrets() {
    each(|on| async move {
        let (room, asked) = room(on).await;
        let text = long("echo hunter2hunter2 && ", "touch end");
        room.workspace()
            .run(RunRequest {
                cwd: "src".into(),
                ..RunRequest::shell(text.clone())
            })
            .await
            .unwrap();
        let request = asked.last();
        assert_eq!(
            (request.operation.as_ref(), request.cwd.as_deref()),
            ("run", Some("src")),
            "{on:?}"
        );
        assert_eq!(request.command.unwrap(), text.replace("hunter2hunter2", "[TOKEN]"));
        assert_eq!(request.notes, Vec::<String>::new(), "{on:?}: nothing is unusual");
    });
}

#[test]
fn what_is_unusual_about_a_command_is_told() {
    each(|on| async move {
        let (room, asked) = room(on).await;
        let request = RunRequest {
            env: [("LD_PRELOAD".to_owned(), "./hunter2hunter2.so\n".to_owned())].into(),
            stdin: Some("rm -rf src # hunter2hunter2".into()),
            effects: Some(EffectsMode::Discard),
            ..RunRequest::shell("bash -c \"$CODE\"")
        };
        room.workspace().run(request).await.unwrap();
        assert_eq!(
            asked.last().notes,
            [
                "runs a command that is known only at run time",
                "discards its changes to the files",
                "is given the variable `LD_PRELOAD` with the value `./[TOKEN].so\\n`",
                "reads 27 bytes from standard input: `rm -rf src # [TOKEN]`",
            ],
            "{on:?}"
        );
        let started = room
            .workspace()
            .start(RunRequest::arguments(["sleep", "1000"]))
            .await
            .unwrap();
        let request = asked.last();
        assert_eq!(
            (request.operation.as_ref(), request.command.as_deref()),
            ("start", Some("sleep 1000"))
        );
        assert_eq!(request.notes, ["keeps running in the background"], "{on:?}");
        room.workspace().kill(&started.id).await.unwrap();
    });
}

#[test]
fn whoever_is_asked_about_code_sees_all_of_it() {
    each(|on| async move {
        let (room, asked) = room(on).await;
        let code = "import os\nprint('hunter2hunter2')\nopen('made', 'w')\n";
        let request = CodeRequest {
            cwd: "src".into(),
            ..CodeRequest::new(Language::Python, code)
        };
        room.workspace().run_code(request).await.unwrap();
        let seen = code.replace("hunter2hunter2", "[TOKEN]");
        let request = asked.last();
        assert_eq!(request.command, Some(format!("python: {seen}")), "{on:?}");
        assert_eq!(
            (request.cwd.as_deref(), request.notes),
            (Some("src"), Vec::new()),
            "{on:?}"
        );
        let context = room
            .workspace()
            .create_code_context(ContextRequest::new(Language::Python))
            .await
            .unwrap();
        assert_eq!(asked.last().notes, ["keeps running in the background"], "{on:?}");
        let piece = PieceRequest::new(context.id.clone(), code);
        room.workspace().run_in_code_context(piece).await.unwrap();
        assert_eq!(
            asked.last().command,
            Some(format!("{}: python: {seen}", context.id)),
            "{on:?}"
        );
        room.workspace().close().await.unwrap();
    });
}
