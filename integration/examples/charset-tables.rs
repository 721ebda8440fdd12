//! Writes `service/src/schema/charset/tables.zst` anew, from what a MySQL server in a container
//! converts every byte sequence to. The format is that module's.

use anyhow::{Context, Result, anyhow};
use tidegate::schema::charset::{Form, TABLES};
use tidegate_integration::charsets::{Sequence, sequences};
use tidegate_integration::{MySql, run};

const TARGET: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../service/src/schema/charset/tables.zst");

/// Level: the strongest that needs no more memory to read.
const LEVEL: i32 = 19;

fn main() {
    run(async {
        let server = MySql::start_new(&[]).await?;
        let mut session = server.session("mysql").await?;
        let mut words = Vec::new();
        for (charset, form) in TABLES {
            let sequences = sequences(&mut session, charset).await?;
            words.extend(table(form, &sequences).with_context(|| format!("the table of {charset}"))?);
        }
        let mut before = 0_u16;
        let differences = words.iter().flat_map(|word| {
            let difference = word.wrapping_sub(before);
            before = *word;
            difference.to_le_bytes()
        });
        let compressed = zstd::bulk::compress(&differences.collect::<Vec<u8>>(), LEVEL)?;
        std::fs::write(TARGET, &compressed)?;
        println!("{} bytes", compressed.len());
        session.close().await
    });
}

/// The parts of one table, and the aliases behind them.
fn table(form: Form, sequences: &[Sequence]) -> Result<Vec<u16>> {
    let lengths: &[usize] = match form {
        Form::Single => &[256],
        Form::Double => &[256, 1 << 15],
        Form::Euc => &[256, 1 << 15, 1 << 14],
        Form::Gb18030 => &[256, 1 << 15, 0, 39_420],
    };
    let mut parts: Vec<Vec<u16>> = lengths.iter().map(|length| vec![0; *length]).collect();
    for sequence in sequences {
        let Some(code_point) = sequence.code_point else { continue };
        let homeless = || anyhow!("no place for {:02X?}", sequence.bytes);
        let index = index(&sequence.bytes).ok_or_else(homeless)?;
        let slot = parts.get_mut(sequence.bytes.len() - 1).and_then(|part| part.get_mut(index));
        match (slot, u16::try_from(code_point)) {
            (Some(slot), Ok(word)) => *slot = word,
            (None, Err(_)) if index as u32 - 189_000 + 0x1_0000 == code_point => {}
            _ => return Err(homeless()),
        }
    }
    let mut aliases = aliases(sequences);
    aliases.sort_unstable();
    let mut words = parts.concat();
    words.push(u16::try_from(aliases.len())?);
    words.extend(aliases.iter().flat_map(|alias| [(alias >> 16) as u16, (alias & 0xffff) as u16]));
    Ok(words)
}

/// Where a sequence stands in the part for its length.
fn index(bytes: &[u8]) -> Option<usize> {
    let at = |position: usize| bytes.get(position).map(|byte| usize::from(*byte));
    Some(match bytes.len() {
        1 => at(0)?,
        2 => at(0)?.checked_sub(0x80)? * 256 + at(1)?,
        3 if at(0)? == 0x8f => at(1)?.checked_sub(0x80)? * 128 + at(2)?.checked_sub(0x80)?,
        4 => {
            let high = (at(0)?.checked_sub(0x81)? * 10 + at(1)?.checked_sub(0x30)?) * 126;
            (high + at(2)?.checked_sub(0x81)?) * 10 + at(3)?.checked_sub(0x30)?
        }
        _ => return None,
    })
}

/// Of the sequences that share a character, all but one: kept is the one that is ASCII, else the
/// one that the server makes of the character, else the first.
fn aliases(sequences: &[Sequence]) -> Vec<u32> {
    let mut sharing: Vec<&Sequence> =
        sequences.iter().filter(|sequence| sequence.code_point.is_some()).collect();
    sharing.sort_by_key(|sequence| (sequence.code_point, !sequence.bytes.is_ascii(), !sequence.restored));
    let pairs = sharing.windows(2).filter(|pair| pair[0].code_point == pair[1].code_point);
    pairs.map(|pair| pair[1].bytes.iter().fold(0, |number, byte| number << 8 | u32::from(*byte))).collect()
}
