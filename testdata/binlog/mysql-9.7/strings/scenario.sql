CREATE TABLE texts (id INT PRIMARY KEY, a VARCHAR(10) CHARSET latin1, b VARCHAR(300) CHARSET utf8mb4, c CHAR(10) CHARSET utf8mb4, d CHAR(255) CHARSET utf8mb4, e BINARY(5), f VARBINARY(300), g TINYTEXT CHARSET cp1251, h TEXT CHARSET utf8mb4, i MEDIUMTEXT CHARSET gbk, j LONGTEXT CHARSET utf8mb4, k TINYBLOB, l BLOB, m MEDIUMBLOB, n LONGBLOB, o VARCHAR(10) CHARSET utf8mb3, p VARCHAR(10) CHARSET ucs2, q VARCHAR(10) CHARSET utf16, r VARCHAR(10) CHARSET sjis, s CHAR(10) CHARSET latin1, t VARCHAR(10) CHARSET ascii, u CHAR(5) CHARSET binary, v VARCHAR(10) CHARSET gb18030, w VARCHAR(10) COLLATE utf8mb4_bin, x VARCHAR(10) CHARSET utf32, y VARCHAR(20) CHARSET big5, z VARCHAR(10) CHARSET koi8r);
INSERT INTO texts VALUES
  (1, 'é€', '日本語😀', 'pad  ', 'длинный', x'0001', x'ff00fe', 'привет', 'text 😀', '中文', 'long', '\0a', 'b', 'm', x'00ff', '€', '漢', '漢😀', '日本', 'lat é', 'ascii', 'ab', '中😀', 'bin', '😀x', '中文', 'рус'),
  (2, '', '', '', '', '', '', '', '', '', '', '', '', '', '', '', '', '', '', '', '', '', '', '', '', '', ''),
  (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
SELECT id, HEX(a), HEX(b), HEX(c), HEX(d), HEX(e), HEX(f), HEX(g), HEX(h), HEX(i), HEX(j), HEX(k), HEX(l), HEX(m), HEX(n), HEX(o), HEX(p), HEX(q), HEX(r), HEX(s), HEX(t), HEX(u), HEX(v), HEX(w), HEX(x), HEX(y), HEX(z) FROM texts ORDER BY id;

CREATE TABLE lengths (id INT PRIMARY KEY, a VARCHAR(255) CHARSET latin1, b VARCHAR(256) CHARSET latin1, c CHAR(63) CHARSET utf8mb4, d CHAR(64) CHARSET utf8mb4, e BINARY(255), f TINYBLOB);
INSERT INTO lengths VALUES (1, REPEAT('a', 255), REPEAT('b', 256), REPEAT('😀', 63), REPEAT('😀', 64), REPEAT('e', 255), REPEAT('f', 255));
SELECT id, HEX(a), HEX(b), HEX(c), HEX(d), HEX(e), HEX(f) FROM lengths;

SET sql_mode = '';
CREATE TABLE labels (id INT PRIMARY KEY, a ENUM('x','y','zé'), b SET('p','q','r','sé'), c ENUM('только','b') CHARSET koi8r, d SET('a0','a1','a2','a3','a4','a5','a6','a7','a8','a9'), e ENUM('a','b') CHARSET latin1);
INSERT INTO labels VALUES (1, 'x', 'p,sé', 'только', 'a0,a9', 'a'), (2, 'zé', '', 2, '', 'b'), (3, 'bad', 'p,q,r,sé', 'b', 1023, NULL), (4, 0, 0, 0, 0, 0), (5, 3, 15, 1, 512, 2);
SELECT id, a+0, b+0, c+0, d+0, e+0 FROM labels ORDER BY id;

SET @members = (WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 64) SELECT GROUP_CONCAT(QUOTE(CONCAT('m', i)) ORDER BY i) FROM n);
SET SESSION group_concat_max_len = 100000;
SET @labels = (WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 300) SELECT GROUP_CONCAT(QUOTE(CONCAT('v', i)) ORDER BY i) FROM n);
SET @statement = CONCAT('CREATE TABLE wide_labels (id INT PRIMARY KEY, a ENUM(', @labels, '), b SET(', @members, '), c SET(''x'',''y'',''z'') )');
PREPARE statement FROM @statement;
EXECUTE statement;
INSERT INTO wide_labels VALUES (1, 'v300', 'm1,m64', 'x,z'), (2, 'v1', 18446744073709551615, ''), (3, NULL, NULL, NULL);
SELECT id, a+0, CAST(b AS UNSIGNED), c+0 FROM wide_labels ORDER BY id;
