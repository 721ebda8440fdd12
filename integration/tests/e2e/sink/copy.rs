//! Chunks: rows and the chunk's own row are one commit, under the fence.

use serde_json::json;
use tidegate::halt::Reason;
use tidegate::sink::copy::{ChunkHeader, ChunkWriter};
use tidegate_integration::run;

use super::source_rows::Table;
use super::*;

fn table(fixture: &Fixture<'_>) -> Table {
    Table::new(&fixture.source, "t", &[("id", false), ("v", true)], &[0])
}

async fn writer(fixture: &Fixture<'_>, table: &Table) -> Result<Writer> {
    let mut writer = take_over(&config(fixture), PIPELINE).await?;
    let mut copying = state(table.model.clone(), TablePhase::Copying, "")?;
    catalog::begin_copy(&mut writer, &mut copying, &table.model, &ddl()).await?;
    Ok(writer)
}

async fn chunk_writer(fixture: &Fixture<'_>, writer: &Writer) -> Result<ChunkWriter> {
    Ok(ChunkWriter::new(connect(&config(fixture)).await?, writer.fence().clone()))
}

fn put_row(out: &mut Vec<u8>, id: i32, text: Option<&str>) {
    out.extend_from_slice(&4_i32.to_be_bytes());
    out.extend_from_slice(&id.to_be_bytes());
    match text {
        Some(text) => {
            out.extend_from_slice(&i32::try_from(text.len()).expect("short").to_be_bytes());
            out.extend_from_slice(text.as_bytes());
        }
        None => out.extend_from_slice(&(-1_i32).to_be_bytes()),
    }
}

#[test]
fn parallel_chunks_commit_with_their_rows() {
    run(async {
        let fixture = fixture("chunks").await?;
        let table = table(&fixture);
        let writer = writer(&fixture, &table).await?;
        let (mut first, mut second) =
            (chunk_writer(&fixture, &writer).await?, chunk_writer(&fixture, &writer).await?);
        let (mut low, mut high) =
            (first.start(&table.model, &[]).await?, second.start(&table.model, &[]).await?);
        // More than one buffer.
        for id in 0..20_000 {
            put_row(low.row().0, id, Some("low"));
            low.flush_if_full().await?;
        }
        put_row(high.row().0, 100_000, None);
        let bounds = json!({"from": null, "below": 50_000});
        let header = ChunkHeader { model: &table.model, chunk: 1, bounds: &json!({}) };
        assert_eq!(high.finish(&header).await?.rows, 1);
        assert_eq!(fixture.target_scalar("SELECT count(*) FROM t").await?.as_deref(), Some("1"));
        assert_eq!(
            low.finish(&ChunkHeader { model: &table.model, chunk: 0, bounds: &bounds }).await?.rows,
            20_000
        );

        assert_eq!(fixture.target_scalar("SELECT count(*) FROM t").await?.as_deref(), Some("20001"));
        let chunks = writer.done_chunks(&table.model.name).await?;
        let done: Vec<_> = chunks.iter().map(|chunk| (chunk.chunk, chunk.rows)).collect();
        assert_eq!(done, [(0, 20_000), (1, 1)]);
        assert_eq!(chunks[0].bounds, bounds);
        assert_eq!(writer.load_tables().await?[0].rows_copied, 20_001);
        Ok(())
    });
}

#[test]
fn a_chunk_that_is_not_finished_leaves_nothing() {
    run(async {
        let fixture = fixture("chunk_dropped").await?;
        let table = table(&fixture);
        let writer = writer(&fixture, &table).await?;
        let mut chunks = chunk_writer(&fixture, &writer).await?;
        let mut copy = chunks.start(&table.model, &[]).await?;
        for id in 0..20_000 {
            put_row(copy.row().0, id, None);
            copy.flush_if_full().await?;
        }
        drop(copy);
        // The same connection goes on with the next.
        let mut copy = chunks.start(&table.model, &[]).await?;
        put_row(copy.row().0, 7, Some("seven"));
        copy.finish(&ChunkHeader { model: &table.model, chunk: 0, bounds: &json!({}) }).await?;
        assert_eq!(
            fixture.target_rows("SELECT id, v FROM t").await?,
            text_rows(&[[Some("7"), Some("seven")]])
        );
        Ok(())
    });
}

#[test]
fn a_chunk_of_a_writer_that_is_fenced_off_leaves_nothing() {
    run(async {
        let fixture = fixture("chunk_fenced").await?;
        let table = table(&fixture);
        let writer = writer(&fixture, &table).await?;
        let mut chunks = chunk_writer(&fixture, &writer).await?;
        fixture.target("UPDATE tidegate.pipeline SET epoch = gen_random_uuid()").await?;
        let started = chunks.start(&table.model, &[]).await.map(drop);
        assert!(retry(started)?.contains("fenced off"));
        Ok(())
    });
}

#[test]
fn a_take_over_waits_for_a_chunk_in_flight() {
    run(async {
        let fixture = fixture("chunk_waited").await?;
        let table = table(&fixture);
        let writer = writer(&fixture, &table).await?;
        let mut chunks = chunk_writer(&fixture, &writer).await?;
        let mut copy = chunks.start(&table.model, &[]).await?;
        put_row(copy.row().0, 1, None);
        drop(writer);

        let config = config(&fixture);
        let taking = tokio::spawn(async move { take_over(&config, PIPELINE).await });
        waits_for_a_lock(&fixture).await?;
        assert!(!taking.is_finished());
        copy.finish(&ChunkHeader { model: &table.model, chunk: 0, bounds: &json!({}) }).await?;
        let writer = taking.await??;
        assert_eq!(writer.done_chunks(&table.model.name).await?.len(), 1, "the chunk is seen");
        Ok(())
    });
}

#[test]
fn what_the_target_refuses_names_no_value() {
    run(async {
        let fixture = fixture("chunk_refused").await?;
        let table = table(&fixture);
        let mut writer = writer(&fixture, &table).await?;
        let mut chunks = chunk_writer(&fixture, &writer).await?;
        let header = ChunkHeader { model: &table.model, chunk: 0, bounds: &json!({}) };
        let mut copy = chunks.start(&table.model, &[]).await?;
        for _ in 0..2 {
            put_row(copy.row().0, 424_242, Some("secret"));
        }
        copy.finish(&header).await?;
        let [copying] = &writer.load_tables().await?[..] else { bail!("one table is on record") };
        let refused = halt(catalog::build_key(&mut writer, copying, &ddl()).await)?;
        assert_eq!(refused.reason, Reason::TargetConstraint);
        assert!(
            !refused.to_string().contains("secret") && !refused.to_string().contains("424242"),
            "{refused}"
        );
        let header = ChunkHeader { chunk: 1, ..header };
        let mut copy = chunks.start(&table.model, &[]).await?;
        put_row(copy.row().0, 1, Some("longer than ten"));
        assert_eq!(halt(copy.finish(&header).await)?.reason, Reason::ValueOutOfRange);
        assert_eq!(fixture.target_scalar("SELECT count(*) FROM t").await?.as_deref(), Some("2"));
        Ok(())
    });
}

#[test]
fn a_chunk_is_not_copied_into_a_table_that_has_changed() {
    run(async {
        let fixture = fixture("chunk_drift").await?;
        let table = table(&fixture);
        let writer = writer(&fixture, &table).await?;
        let mut chunks = chunk_writer(&fixture, &writer).await?;
        fixture.target("ALTER TABLE t ALTER COLUMN v TYPE varchar(5)").await?;
        let started = chunks.start(&table.model, &[]).await.map(drop);
        assert_eq!(halt(started)?.reason, Reason::TargetDrift);
        Ok(())
    });
}
