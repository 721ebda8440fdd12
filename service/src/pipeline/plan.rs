//! `tidegate plan`: what a run creates on the target.

use std::collections::BTreeSet;

use mysql_async::Conn;

use crate::config::Config;
use crate::halt::Failure;
use crate::schema::filter::Filter;
use crate::schema::plan::{Beside, Plan};
use crate::schema::types::{TypeContext, may_become_boolean, target_type};
use crate::schema::{MysqlType, TableModel};
use crate::sink;
use crate::source::{self, reader};

/// The plan for the tables as they are now. Only the source is asked, and where there are spatial columns the
/// target, for PostGIS.
///
/// # Errors
/// What keeps the source from being asked.
pub async fn plan(config: &Config, filter: &Filter) -> Result<Plan, Failure> {
    let mut conn = source::connect::connect(&config.source).await?;
    let (mut models, mut problems) = reader::describe(&mut conn, filter, &config.types).await?;
    let mut not_asked = None;
    if config.types.names_geometry() || models.iter().any(is_spatial) {
        match sink::postgis::types_at(&config.target, &config.types).await {
            Ok(types) => (models, problems) = reader::describe(&mut conn, filter, &types).await?,
            Err(failure) => not_asked = Some(format!("whether the target has PostGIS: {failure}")),
        }
    }
    for model in &mut models {
        choose_booleans(&mut conn, model).await?;
    }
    let databases: BTreeSet<&str> = models.iter().map(|model| model.name.database.as_str()).collect();
    let databases: Vec<&str> = databases.into_iter().collect();
    let mut not_seen = source::preflight::not_seen(&mut conn, &databases).await?;
    not_seen.extend(not_asked);
    let beside = Beside {
        not_carried_over: reader::beside_tables(&mut conn, &databases).await?,
        not_seen,
        counters: reader::counters(&mut conn, &databases).await?,
    };
    let mut plan = Plan::new(&models, beside);
    plan.problems.extend(problems.iter().map(ToString::to_string));
    Ok(plan)
}

fn is_spatial(model: &TableModel) -> bool {
    model.columns.iter().any(|column| column.mysql == MysqlType::Geometry)
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
