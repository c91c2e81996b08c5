//! Attacks from inside a command, against Garret as it runs for root and for somebody without rights. None may succeed.
//!
//! Each is a script that a hostile model might run, or a configuration file that a hostile repository might bring. It may fail in any way that it likes; what counts is what it saw, what it left on the
//! machine, and whether the next command still runs. `cargo test -p garret-cli --test attacks` prints how many were made; a word after `--`
//! chooses those whose name holds it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "it says how it went")]
#![allow(
    clippy::disallowed_methods,
    reason = "it looks at the machine from outside, as another program would"
)]

mod calling;
mod crashing;
mod hiding;
mod pausing;
mod planting;
mod reaching;
mod reading;
mod scene;
mod sharing;
mod showing;
mod trusting;
mod using_up;
mod writing;

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
    let chosen = std::env::args().nth(1).filter(|word| !word.starts_with('-'));
    let all = [
        reading::ATTACKS,
        hiding::ATTACKS,
        writing::ATTACKS,
        calling::ATTACKS,
        crashing::ATTACKS,
        reaching::ATTACKS,
        using_up::ATTACKS,
        pausing::ATTACKS,
        planting::ATTACKS,
        sharing::ATTACKS,
        showing::ATTACKS,
        trusting::ATTACKS,
    ];
    let attacks: Vec<&Attack> = all.into_iter().flatten().collect();
    let is_chosen = |attack: &&&Attack| chosen.as_deref().is_none_or(|word| attack.name.contains(word));
    let (mut count, mut succeeded) = (0, Vec::new());
    for (user, place) in scenes() {
        let scene = Scene::new(user, place);
        for attack in attacks.iter().filter(is_chosen) {
            count += 1;
            if let Err(reason) = attempt(&scene, attack) {
                println!("SUCCEEDED {user:?} on {place:?}: {}: {reason}", attack.name);
                succeeded.push(attack.name);
            }
        }
    }
    println!("{count} attacks, {} succeeded", succeeded.len());
    assert!(count > 0, "no attack has that in its name");
    assert!(succeeded.is_empty(), "{succeeded:?}");
}

/// Who runs Garret on which files. Only root can run it as somebody else.
fn scenes() -> Vec<(User, Place)> {
    let users = match rustix::process::geteuid().is_root() {
        true => vec![User::Own, User::Nobody],
        false => {
            println!("Not root: the attacks run against Garret as this user only.");
            vec![User::Own]
        }
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
