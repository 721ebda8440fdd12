//! `tidegate plan`: what a run creates on the target.

use std::collections::BTreeSet;

use mysql_async::Conn;

use crate::config::Config;
use crate::halt::Failure;
use crate::schema::TableModel;
use crate::schema::filter::Filter;
use crate::schema::plan::{Beside, Plan};
use crate::schema::types::{TypeContext, may_become_boolean, target_type};
use crate::source::{self, reader};

/// The plan for the tables as they are now. Only the source is asked.
///
/// # Errors
/// What keeps the source from being asked.
pub async fn plan(config: &Config, filter: &Filter) -> Result<Plan, Failure> {
    let mut conn = source::connect::connect(&config.source).await?;
    let (mut models, problems) = reader::describe(&mut conn, filter, &config.types).await?;
    for model in &mut models {
        choose_booleans(&mut conn, model).await?;
    }
    let databases: BTreeSet<&str> = models.iter().map(|model| model.name.database.as_str()).collect();
    let databases: Vec<&str> = databases.into_iter().collect();
    let beside = Beside {
        not_carried_over: reader::beside_tables(&mut conn, &databases).await?,
        not_seen: source::preflight::not_seen(&mut conn, &databases).await?,
        counters: reader::counters(&mut conn, &databases).await?,
    };
    let mut plan = Plan::new(&models, beside);
    plan.problems.extend(problems.iter().map(ToString::to_string));
    Ok(plan)
}

/// As the copy will choose, from the rows that are there now.
async fn choose_booleans(conn: &mut Conn, model: &mut TableModel) -> Result<(), Failure> {
    let TableModel { name, columns, .. } = model;
    for column in columns.iter_mut().filter(|column| may_become_boolean(column)) {
        let only_zero_one = reader::only_zero_one(conn, name, &column.name).await?;
        let (table, auto_increment) = (&*name, column.auto_increment);
        let context = TypeContext { table, column: &column.name, only_zero_one, auto_increment };
        column.target = target_type(&column.mysql, context)?;
    }
    Ok(())
}
