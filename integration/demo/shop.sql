-- The demo's sample database: a small shop, about 190,000 rows, with the common column types.
SET SESSION cte_max_recursion_depth = 1000000;

CREATE TABLE customers (
    id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
    email VARCHAR(120) NOT NULL,
    full_name VARCHAR(80) NOT NULL,
    country CHAR(2) NOT NULL,
    newsletter TINYINT(1) NOT NULL DEFAULT 0,
    birthday DATE NULL,
    credit_limit DECIMAL(10,2) NOT NULL DEFAULT 500.00,
    created_at DATETIME(3) NOT NULL
);

CREATE TABLE categories (
    id SMALLINT UNSIGNED NOT NULL PRIMARY KEY,
    parent_id SMALLINT UNSIGNED NULL,
    title VARCHAR(60) NOT NULL
);

CREATE TABLE products (
    sku CHAR(10) NOT NULL PRIMARY KEY,
    category_id SMALLINT UNSIGNED NOT NULL,
    title VARCHAR(100) NOT NULL,
    description TEXT NULL,
    price DECIMAL(9,2) NOT NULL,
    weight_kg FLOAT NULL,
    attributes JSON NULL,
    thumbnail VARBINARY(64) NULL,
    flags SET('fragile', 'digital', 'gift') NOT NULL DEFAULT '',
    stock MEDIUMINT NOT NULL DEFAULT 0,
    FOREIGN KEY (category_id) REFERENCES categories (id)
);

CREATE TABLE orders (
    id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
    customer_id INT UNSIGNED NOT NULL,
    state ENUM('new', 'paid', 'shipped', 'returned') NOT NULL DEFAULT 'new',
    total DECIMAL(12,2) NOT NULL DEFAULT 0,
    note VARCHAR(200) NULL,
    placed_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
    FOREIGN KEY (customer_id) REFERENCES customers (id)
);

CREATE TABLE order_items (
    order_id BIGINT UNSIGNED NOT NULL,
    line SMALLINT NOT NULL,
    sku CHAR(10) NOT NULL,
    quantity SMALLINT UNSIGNED NOT NULL,
    unit_price DECIMAL(9,2) NOT NULL,
    PRIMARY KEY (order_id, line),
    FOREIGN KEY (order_id) REFERENCES orders (id) ON DELETE CASCADE
);

-- An append-only table without any key.
CREATE TABLE events (
    happened_at DATETIME(6) NOT NULL,
    kind VARCHAR(20) NOT NULL,
    order_id BIGINT UNSIGNED NULL,
    seconds DOUBLE NOT NULL
);

INSERT INTO categories
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40)
SELECT i, IF(i <= 8, NULL, 1 + i % 8), CONCAT('Category ', i) FROM n;

INSERT INTO customers (email, full_name, country, newsletter, birthday, credit_limit, created_at)
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
SELECT CONCAT('customer', i, '@example.net'),
       CONCAT(ELT(1 + i % 6, 'Zoë', 'José', 'Łukasz', 'Ann', '美咲', 'Björk'), ' ', ELT(1 + i % 5, 'Müller', 'García', 'Nowak', 'O''Neill', '田中')),
       ELT(1 + i % 6, 'DE', 'ES', 'PL', 'IE', 'JP', 'IS'), i % 2,
       IF(i % 7 = 0, NULL, DATE_ADD('1950-01-01', INTERVAL (i * 37) % 20000 DAY)),
       100 + (i * 13) % 5000 / 4, DATE_ADD('2024-01-01', INTERVAL i * 1234567 MICROSECOND)
FROM n;

INSERT INTO products (sku, category_id, title, description, price, weight_kg, attributes, thumbnail, flags, stock)
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
SELECT CONCAT('SKU', LPAD(i, 7, '0')), 1 + i % 40, CONCAT('Product ', i), IF(i % 5 = 0, NULL, REPEAT(CONCAT('Text ', i, ' — '), 1 + i % 12)),
       1 + (i * 7919) % 100000 / 100, IF(i % 9 = 0, NULL, i / 37),
       JSON_OBJECT('color', ELT(1 + i % 3, 'red', 'grün', '青'), 'sizes', JSON_ARRAY(i % 4, i % 7), 'rating', CAST(i % 50 / 10 AS DECIMAL(3,1))),
       IF(i % 4 = 0, NULL, UNHEX(SHA2(i, 256))), i % 8, (i * 31) % 2000
FROM n;

INSERT INTO orders (customer_id, state, total, note, placed_at)
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40000)
SELECT 1 + (i * 7) % 20000, 1 + i % 4, (i * 101) % 100000 / 100, IF(i % 3 = 0, CONCAT('note ', i), NULL),
       DATE_ADD('2025-01-01', INTERVAL i * 600000001 MICROSECOND)
FROM n;

INSERT INTO order_items (order_id, line, sku, quantity, unit_price)
WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 119999)
SELECT 1 + i DIV 3, 1 + i % 3, CONCAT('SKU', LPAD(1 + (i * 17) % 5000, 7, '0')), 1 + i % 5, (i * 113) % 20000 / 100
FROM n;

INSERT INTO events (happened_at, kind, order_id, seconds)
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
SELECT DATE_ADD('2026-01-01', INTERVAL i * 1000003 MICROSECOND), ELT(1 + i % 3, 'view', 'cart', 'pay'), 1 + i % 40000, i / 7
FROM n;
