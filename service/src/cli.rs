//! The command line.

mod ask;
mod check;
mod init;
mod output;
mod plan;
mod run;
mod status;
mod stored;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::config::{self, Config, Environment};
use output::{Output, say};

/// How a command ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Exit {
    Done,
    Error,
    /// The command line or the configuration is wrong. Clap ends with the same code.
    Usage,
    Halted,
    /// `check` found what forbids an exact replication, or `plan` what would halt.
    ProblemsFound,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::Error => 1,
            Exit::Usage => 2,
            Exit::Halted => 3,
            Exit::ProblemsFound => 4,
        })
    }
}

/// Replicates MySQL into PostgreSQL: copies the tables, then follows the binlog and applies every
/// committed transaction exactly once. What can't be applied exactly halts it, with the reason.
#[derive(Debug, Parser)]
#[command(version, propagate_version = true)]
#[command(
    after_help = "Exit codes: 0 done, 1 error, 2 usage or configuration, 3 halted, 4 check or plan found problems.\n\
    Every configuration key can also be set in the environment: source.server_id is TIDEGATE_SOURCE__SERVER_ID."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Write a configuration file with every key explained
    Init {
        /// Where to write it; - for standard output. An existing file is left alone
        #[arg(long, value_name = "FILE", default_value = config::DEFAULT_PATH)]
        output: PathBuf,
    },
    /// Look at both servers and report everything that stands in the way, each with the SQL that mends it
    ///
    /// Changes nothing on either server. Ends with 4 when something forbids an exact replication,
    /// with 0 when there are warnings at most.
    Check {
        #[command(flatten)]
        config: ConfigArgument,
        /// Also read every row of the replicated tables, and count what PostgreSQL can't hold
        ///
        /// Proposes the policies that let it pass. Ends with 4 when a run would halt. Shows counts,
        /// never values.
        #[arg(long)]
        data: bool,
        /// Print the findings as JSON
        #[arg(long)]
        json: bool,
    },
    /// Print the schema that `run` creates on the target, as SQL that psql can run
    ///
    /// Reads the source only, the values of TINYINT(1) columns among it. What is not on the target as it
    /// is on the source is said in comments, with the reason. Ends with 4 when a table can't be
    /// replicated as it is.
    Plan {
        #[command(flatten)]
        config: ConfigArgument,
        /// Print statements and notes as JSON
        #[arg(long)]
        json: bool,
    },
    /// Copy the tables that are not there yet, then follow the source until stopped
    ///
    /// SIGTERM or SIGINT stops it after the batch in hand; a second one stops it at once. Both are
    /// safe: it resumes from the position that was committed with the data. When it halts it stays
    /// up so that health checks and status can tell why, and waits for POST /v1/resume or a restart.
    Run {
        #[command(flatten)]
        config: ConfigArgument,
        /// End with 3 on a halt instead of staying up
        #[arg(long)]
        exit_on_halt: bool,
    },
    /// Tell how a pipeline is doing
    ///
    /// Asks the running process at admin.listen; when it can't be reached, reads the position and
    /// table states that the target holds. Ends with 3 when the pipeline is halted, and with 1 when
    /// the process can't be reached.
    Status {
        #[command(flatten)]
        config: ConfigArgument,
        /// Print the facts as JSON, as GET /status serves them
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, clap::Args)]
struct ConfigArgument {
    /// Configuration file [default: tidegate.toml]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl ConfigArgument {
    /// The configuration; what is wrong with it goes to standard error.
    fn load(&self) -> Result<Config, Exit> {
        config::load(self.config.as_deref(), &Environment::of_process()).map_err(|problems| {
            say(&problems.to_string());
            Exit::Usage
        })
    }
}

/// Parses the command line and carries it out.
#[must_use]
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    execute(&cli.command).unwrap_or_else(|exit| exit).into()
}

fn execute(command: &Command) -> Result<Exit, Exit> {
    match command {
        Command::Init { output } => Ok(init::init(output)),
        Command::Check { config, data, json } => {
            let config = config.load()?;
            Ok(runtime()?.block_on(check::check(&config, *data, Output::new(*json))))
        }
        Command::Plan { config, json } => {
            let config = config.load()?;
            Ok(runtime()?.block_on(plan::plan(&config, Output::new(*json))))
        }
        Command::Run { config, exit_on_halt } => {
            let config = config.load()?;
            Ok(runtime()?.block_on(run::run(config, *exit_on_halt)))
        }
        Command::Status { config, json } => {
            let config = config.load()?;
            Ok(runtime()?.block_on(status::status(&config, Output::new(*json))))
        }
    }
}

fn runtime() -> Result<tokio::runtime::Runtime, Exit> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(|error| {
        say(&format!("the runtime can't be started: {error}"));
        Exit::Error
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn no_secret_is_taken_on_the_command_line() {
        for command in Cli::command().get_subcommands() {
            for argument in command.get_arguments() {
                let name = argument.get_id().as_str();
                assert!(
                    !name.contains("password") && !name.contains("token") && !name.contains("url"),
                    "{name}"
                );
            }
        }
    }
}
