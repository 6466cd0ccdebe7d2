CREATE TABLE IF NOT EXISTS cells (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS texts (
    id INTEGER PRIMARY KEY, digest BLOB NOT NULL UNIQUE, named INTEGER NOT NULL, sz INTEGER NOT NULL, data BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS files (
    cell INTEGER NOT NULL, folder TEXT NOT NULL, name TEXT NOT NULL, text INTEGER NOT NULL,
    PRIMARY KEY (cell, folder, name)
) WITHOUT ROWID;
CREATE VIEW IF NOT EXISTS contents AS
SELECT 'cells/' || cells.name || '/' || folder || files.name AS name,
CASE named
    WHEN 1 THEN CAST(replace(CAST(sqlar_uncompress(data, sz) AS TEXT), char(1), cells.name) AS BLOB)
    ELSE sqlar_uncompress(data, sz)
END AS content
FROM files JOIN cells ON cells.id = files.cell JOIN texts ON texts.id = files.text;
