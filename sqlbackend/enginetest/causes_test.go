package enginetest

// causes lists the reasons, in the order in which they are tried.
func causes() []cause {
	return []cause{
		{"alter", "changing the columns of a table is not built: milestone 5", `ALTER TABLE … (ADD|DROP|MODIFY) COLUMN|not primary key alterable|is not alterable|cannot have its (collation|comment) altered`},
		{"unique", "UNIQUE keys other than the primary key are not built: milestone 5", `UNIQUE keys other than the primary key`},
		{"index", "CREATE INDEX is not built: milestone 5", `'(CREATE INDEX|DROP INDEX|ALTER TABLE … RENAME INDEX)'`},
		{"functional-index", "indexes on expressions are not built: milestone 5", `functional indexes`},
		{"check", "ALTER TABLE … ADD CHECK is not built: milestone 5", `ALTER TABLE … (ADD|DROP) CHECK`},
		{"foreign-key", "FOREIGN KEY is not built: milestone 5", `'FOREIGN KEY'|does not support foreign key operations`},
		{"fulltext", "FULLTEXT indexes are not built: milestone 7", `FULLTEXT indexes`},
		{"spatial-index", "SPATIAL indexes are not built", `SPATIAL indexes`},
		{"spatial", "spatial types are not stored: milestone 5", `columns of type (geometry|point|linestring|polygon|multi)`},
		{"vector", "VECTOR columns and indexes are not built: milestone 6", `columns of type VECTOR|VECTOR indexes`},
		{"temporary", "temporary tables are not built: milestone 5", `does not support temporary tables`},
		{"several-tables", "a transaction that writes several tables is not built: milestone 5", `commit spans several tables`},
		{"zero-date", "zero dates have no Arrow value and are refused (docs/types.md)", `Incorrect (date|datetime) value: '0000-00-00|Invalid default value`},
		{openReason, "not looked into yet", ``},
	}
}
