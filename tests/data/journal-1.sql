-- A journal as version 1 of the schema made it, before it had `retried`.
CREATE TABLE meta ("key" VARCHAR NOT NULL, value TEXT NOT NULL, PRIMARY KEY ("key"));
INSERT INTO meta VALUES('schema','1');
CREATE TABLE cells (id VARCHAR NOT NULL, name TEXT NOT NULL, axes JSON NOT NULL, position INTEGER NOT NULL, PRIMARY KEY (id));
INSERT INTO cells VALUES('c1','single/seqread','{"layout":"single"}',1);
CREATE TABLE attempts (cell VARCHAR NOT NULL, block INTEGER NOT NULL, number INTEGER NOT NULL, started VARCHAR NOT NULL, reason TEXT NOT NULL, tail TEXT NOT NULL, PRIMARY KEY (cell, block, number));
INSERT INTO attempts VALUES('c1',2,1,'2026-01-01T00:00:02.000+00:00','the guest panicked','Kernel panic');
CREATE TABLE begun (cell VARCHAR NOT NULL, block INTEGER NOT NULL, attempt INTEGER NOT NULL, boot_id VARCHAR NOT NULL, started VARCHAR NOT NULL, PRIMARY KEY (cell, block, attempt));
CREATE TABLE visits (id INTEGER NOT NULL, block INTEGER NOT NULL, array VARCHAR NOT NULL, seconds FLOAT NOT NULL, PRIMARY KEY (id));
INSERT INTO visits VALUES(1,1,'single',0.5);
CREATE TABLE trials (
    id INTEGER NOT NULL, cell VARCHAR NOT NULL, block INTEGER NOT NULL, outcome VARCHAR NOT NULL, reason TEXT NOT NULL,
    started VARCHAR NOT NULL, seconds FLOAT NOT NULL, attempts INTEGER NOT NULL, folder TEXT NOT NULL,
    runtime FLOAT, cpu_usr FLOAT, cpu_sys FLOAT, errors INTEGER,
    read_bw FLOAT, read_iops FLOAT, read_bytes BIGINT, read_ios BIGINT, read_lat_mean FLOAT, read_lat_p50 FLOAT,
    read_lat_p99 FLOAT, read_lat_p999 FLOAT, read_lat_p9999 FLOAT, read_lat_max FLOAT,
    write_bw FLOAT, write_iops FLOAT, write_bytes BIGINT, write_ios BIGINT, write_lat_mean FLOAT, write_lat_p50 FLOAT,
    write_lat_p99 FLOAT, write_lat_p999 FLOAT, write_lat_p9999 FLOAT, write_lat_max FLOAT,
    readings JSON NOT NULL, notes JSON NOT NULL,
    PRIMARY KEY (id), CONSTRAINT one_trial_per_cell_and_block UNIQUE (cell, block), FOREIGN KEY(cell) REFERENCES cells (id)
);
INSERT INTO trials VALUES(1,'c1',1,'measured','','2026-01-01T00:00:01.000+00:00',1.5,1,'cells/single/seqread/trial-1',1.0,2.0,3.0,0,2e8,200.0,200000000,200,5e6,4e6,9e6,9.5e6,9.9e6,1e7,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'[["md.chunk","65536","65536"]]','{"kernel":"6.1.0-28-amd64"}');
INSERT INTO trials VALUES(2,'c1',2,'broken','the guest panicked','2026-01-01T00:00:02.000+00:00',7.0,2,'',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'[]','{}');
