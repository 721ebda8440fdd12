//! `tidegate plan`

use super::Exit;
use super::output::{Output, say};
use crate::config::Config;
use crate::pipeline;
use crate::schema::filter::Filter;

pub(super) async fn plan(config: &Config, output: Output) -> Exit {
    let filter = match Filter::new(&config.tables.include, &config.tables.exclude) {
        Ok(filter) => filter,
        Err(error) => {
            say(&error.to_string());
            return Exit::Usage;
        }
    };
    match pipeline::plan(config, &filter).await {
        Ok(plan) => {
            let exit = if plan.problems.is_empty() { Exit::Done } else { Exit::ProblemsFound };
            output.result(&plan, || plan.script(), exit)
        }
        Err(failure) => {
            say(&failure.to_string());
            Exit::Error
        }
    }
}
