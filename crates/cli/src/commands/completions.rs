//! `garret completions`

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::arguments::Cli;
use crate::output::{Outcome, Report};

#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(&self) -> Outcome {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "garret", &mut script);
        let text = String::from_utf8(script).expect("completions are text");
        Ok(Report::done(text, serde_json::json!({"shell": self.shell.to_string()})))
    }
}
