"""The same raw files in bare Polars: scan, join, sort, and write Parquet; nothing is checked.

It reads the columns that setwise reads for the paper's view, in types as narrow, and joins what is
known of documents to the ads before the ads to the clicks: the cheapest order. All is one lazy
query on the streaming engine.
"""

import argparse
from pathlib import Path

import polars as pl
from report import emit, timed, versions
from side import memory

NULLS = ["NULL", "\\N"]
EXPEDIA = {
    "srch_id": pl.Int32, "date_time": pl.String, "prop_id": pl.Int32, "price_usd": pl.Float32,
    "prop_starrating": pl.Int8, "prop_review_score": pl.Float32, "prop_brand_bool": pl.Int8,
    "prop_location_score1": pl.Float32, "prop_location_score2": pl.Float32,
    "promotion_flag": pl.Int8, "click_bool": pl.Int8,
}  # fmt: skip
CLICKS = {"display_id": pl.Int32, "ad_id": pl.Int32, "clicked": pl.Int8}
EVENTS = {
    "display_id": pl.Int32, "document_id": pl.Int32, "timestamp": pl.Int64, "platform": pl.Int8,
    "geo_location": pl.Categorical,  # a tenth faster than text
}  # fmt: skip
ADS = {
    "ad_id": pl.Int32, "document_id": pl.Int32, "campaign_id": pl.Int32, "advertiser_id": pl.Int32,
}  # fmt: skip
META = {
    "document_id": pl.Int32, "source_id": pl.Int32, "publisher_id": pl.Int32,
    "publish_time": pl.String,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=QUERIES)
    parser.add_argument("raw", type=Path, help="the folder with the raw files")
    parser.add_argument("out", type=Path, help="the Parquet file to write")
    given = parser.parse_args()
    query = QUERIES[given.name](given.raw)
    seconds, _ = timed(lambda: query.sink_parquet(given.out, engine="streaming"))
    rows = pl.scan_parquet(given.out).select(pl.len()).collect().item()
    emit({"seconds": seconds, "memory": memory(), "rows": rows, "versions": versions("polars")})


def expedia(raw: Path) -> pl.LazyFrame:
    return dated(scan(raw / "train.csv", EXPEDIA), "date_time").sort("srch_id")


def outbrain(raw: Path) -> pl.LazyFrame:
    meta = dated(scan(raw / "documents_meta.csv", META), "publish_time")
    ads = scan(raw / "promoted_content.csv", ADS).join(meta, on="document_id", how="left")
    for file, column in (("categories", "category_id"), ("topics", "topic_id")):
        subjects = top(raw / f"documents_{file}.csv", column)
        ads = ads.join(subjects, on="document_id", how="left")
    views = scan(raw / "events.csv", EVENTS)
    return (
        scan(raw / "clicks_train.csv", CLICKS)
        .join(views, on="display_id", how="left")
        .join(ads.rename({"document_id": "ad_document_id"}), on="ad_id", how="left")
        .sort("display_id")
    )


QUERIES = {"expedia": expedia, "outbrain": outbrain}


def scan(path: Path, types: dict[str, type[pl.DataType]]) -> pl.LazyFrame:
    """The columns named, in these types; columns that are not named are not parsed."""
    return pl.scan_csv(path, schema_overrides=types, null_values=NULLS).select(*types)


def dated(table: pl.LazyFrame, column: str) -> pl.LazyFrame:
    moment = pl.col(column).str.to_datetime("%Y-%m-%d %H:%M:%S", time_unit="ms", strict=False)
    return table.with_columns(moment)


def top(path: Path, column: str) -> pl.LazyFrame:
    """The most confident entry of each document."""
    types = {"document_id": pl.Int32, column: pl.Int32, "confidence_level": pl.Float32}
    best = pl.col(column).get(pl.col("confidence_level").arg_max())
    return scan(path, types).group_by("document_id").agg(best)


if __name__ == "__main__":
    main()
