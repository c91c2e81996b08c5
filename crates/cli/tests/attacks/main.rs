//! Attacks from inside a command, against Garret as it runs for root and for somebody without rights. None may succeed.
//!
//! Each is a script that a hostile model might run, or a configuration file that a hostile repository might bring. It may fail in any way that it likes; what counts is what it saw, what it left on the
//! machine, and whether the next command still runs. `cargo test -p garret-cli --test attacks` prints how many were made; a word after `--`
//! chooses those whose name holds it, and `--demanding` or `--modest` those that need a machine without other work, or the rest.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "it says how it went")]
#![allow(
    clippy::disallowed_methods,
    reason = "it looks at the machine from outside, as another program would"
)]

mod borrowing;
mod calling;
mod crashing;
mod hiding;
mod networking;
mod opening;
mod pausing;
mod planting;
mod reaching;
mod reading;
mod scene;
mod sharing;
mod showing;
mod trusting;
mod typing;
#[path = "../typist.rs"]
mod typist;
mod using_up;
#[path = "../web_server.rs"]
mod web_server;
mod writing;

use std::sync::Mutex;

use scene::{CANARY, Place, Ran, Scene, User};

/// One attack.
pub(crate) struct Attack {
    /// What is tried, as a sentence.
    name: &'static str,
    /// What is run, in a scene.
    run: fn(&Scene) -> Ran,
    /// What must hold besides: the canary unseen, the machine unharmed and the next command running.
    holds: fn(&Scene, &Ran) -> bool,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let chosen = arguments.iter().find(|word| !word.starts_with('-'));
    let is_given = |flag: &str| arguments.iter().any(|word| word == flag);
    // These use the machine up, or depend on how busy it is.
    let demanding = [using_up::ATTACKS, pausing::ATTACKS];
    let modest = [
        reading::ATTACKS,
        hiding::ATTACKS,
        writing::ATTACKS,
        calling::ATTACKS,
        crashing::ATTACKS,
        reaching::ATTACKS,
        networking::ATTACKS,
        opening::ATTACKS,
        planting::ATTACKS,
        sharing::ATTACKS,
        showing::ATTACKS,
        trusting::ATTACKS,
        borrowing::ATTACKS,
        typing::ATTACKS,
    ];
    let choose = |groups: &[&'static [Attack]], is_wanted: bool| -> Vec<&Attack> {
        let attacks = groups.iter().copied().flatten().filter(|_| is_wanted);
        let is_chosen = |attack: &&Attack| chosen.is_none_or(|word| attack.name.contains(word.as_str()));
        attacks.filter(is_chosen).collect()
    };
    let demanding = choose(&demanding, !is_given("--modest"));
    let modest = choose(&modest, !is_given("--demanding"));
    // All programs are copied before the first starts: a file that a child of another thread still holds open cannot be executed.
    let scenes: Vec<Scene> = scenes()
        .into_iter()
        .map(|(user, place)| Scene::new(user, place))
        .collect();
    let count = (demanding.len() + modest.len()) * scenes.len();
    assert!(count > 0, "no attack has that in its name");
    let one_at_a_time = Mutex::new(());
    let run_scene = |scene| {
        let mut succeeded = attempt_all(scene, &modest);
        for attack in &demanding {
            let _alone = one_at_a_time.lock().unwrap();
            succeeded.extend(attempt_all(scene, &[attack]));
        }
        succeeded
    };
    // Attacks mostly wait for a time limit, so the scenes go on side by side.
    let succeeded: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = scenes.iter().map(|scene| scope.spawn(|| run_scene(scene))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    println!("{count} attacks, {} succeeded", succeeded.len());
    assert!(succeeded.is_empty(), "{succeeded:?}");
}

/// Returns the names of the attacks that succeeded in the scene.
fn attempt_all(scene: &Scene, attacks: &[&Attack]) -> Vec<&'static str> {
    let mut succeeded = Vec::new();
    for attack in attacks {
        if let Err(reason) = attempt(scene, attack) {
            println!(
                "SUCCEEDED {:?} on {:?}: {}: {reason}",
                scene.user, scene.place, attack.name
            );
            succeeded.push(attack.name);
        }
    }
    succeeded
}

/// Who runs Garret on which files. Only root can run it as somebody else.
fn scenes() -> Vec<(User, Place)> {
    let users = if rustix::process::geteuid().is_root() {
        vec![User::Own, User::Nobody]
    } else {
        println!("Not root: the attacks run against Garret as this user only.");
        vec![User::Own]
    };
    let places = [Place::Filestore, Place::Local];
    users
        .into_iter()
        .flat_map(|user| places.map(|place| (user, place)))
        .collect()
}

fn attempt(scene: &Scene, attack: &Attack) -> Result<(), String> {
    let reached = scene.reached();
    let ran = (attack.run)(scene);
    if ran.said().contains(CANARY) {
        return Err(format!("it saw what it must not: {}", ran.said()));
    }
    if scene.reached() != reached {
        return Err("it reached a listener of the machine".into());
    }
    if ran.stderr.contains("unsupported") {
        return Err(format!("it did not run at all: {}", ran.stderr));
    }
    if !(attack.holds)(scene, &ran) {
        return Err(format!("{ran:?}"));
    }
    scene.is_unharmed()
}
