// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"sort"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Entity is the part that all rows of CloudStack's database have in common: the internal id, which appears in error
// texts, and the UUID, which the API uses.
type Entity struct {
	ID      int64
	UUID    string
	Removed bool // soft-deleted: the UUID still resolves
	Created time.Time
}

// Ent returns the entity of a row.
func (e *Entity) Ent() *Entity { return e }

// Row is an entity in a table.
type Row interface {
	comparable
	Ent() *Entity
}

// Table keeps the rows of one kind in order of their internal id.
type Table[T Row] struct {
	Rows   []T
	ByUUID map[string]T
	Next   int64
}

func newTable[T Row]() *Table[T] { return &Table[T]{ByUUID: map[string]T{}, Next: 1} }

// Add stores a row with a new internal id and, if it has none, a new UUID.
func (t *Table[T]) Add(v T) T {
	e := v.Ent()
	e.ID = t.Next
	t.Next++
	if e.UUID == "" {
		e.UUID = uuid.NewString()
	}
	t.Rows = append(t.Rows, v)
	t.ByUUID[strings.ToLower(e.UUID)] = v
	return v
}

// AddWithID is like Add, for rows that share an id sequence with another table.
func (t *Table[T]) AddWithID(v T, id int64) T {
	t.Next = id
	return t.Add(v)
}

// Delete deletes the row permanently: its UUID does not resolve any more.
func (t *Table[T]) Delete(v T) {
	e := v.Ent()
	delete(t.ByUUID, strings.ToLower(e.UUID))
	if i, ok := t.index(e.ID); ok {
		t.Rows = append(t.Rows[:i], t.Rows[i+1:]...)
	}
	e.Removed = true
}

// Rename changes the UUID of a row.
func (t *Table[T]) Rename(v T, id string) {
	e := v.Ent()
	delete(t.ByUUID, strings.ToLower(e.UUID))
	e.UUID = id
	t.ByUUID[strings.ToLower(id)] = v
}

func (t *Table[T]) index(id int64) (int, bool) {
	i := sort.Search(len(t.Rows), func(i int) bool { return t.Rows[i].Ent().ID >= id })
	return i, i < len(t.Rows) && t.Rows[i].Ent().ID == id
}

// Get finds a row by UUID (case-insensitive, like the database), including soft-deleted rows.
func (t *Table[T]) Get(id string) (T, bool) {
	v, ok := t.ByUUID[strings.ToLower(id)]
	return v, ok
}

// ByID returns the row with the internal id.
func (t *Table[T]) ByID(id int64) (T, bool) {
	if i, ok := t.index(id); ok {
		return t.Rows[i], true
	}
	var zero T
	return zero, false
}

// Find returns the first row for which ok returns true; it skips soft-deleted rows.
func (t *Table[T]) Find(ok func(T) bool) (T, bool) {
	for _, v := range t.Rows {
		if !v.Ent().Removed && ok(v) {
			return v, true
		}
	}
	var zero T
	return zero, false
}

// SetOf returns a set of the names.
func SetOf(names ...string) map[string]bool {
	m := make(map[string]bool, len(names))
	for _, n := range names {
		m[n] = true
	}
	return m
}

// Like reports whether s contains k, ignoring case, like SQL's LIKE %k%. _ and % in k are wildcards.
func Like(s, k string) bool {
	s, k = strings.ToLower(s), strings.ToLower(k)
	if !strings.ContainsAny(k, "_%") {
		return strings.Contains(s, k)
	}
	return LikeMatch([]rune(s), []rune("%"+k+"%"))
}

// LikeMatch reports whether s matches a LIKE pattern, in time proportional to the product of their lengths.
func LikeMatch(s, p []rune) bool {
	i, j, star, mark := 0, 0, -1, 0
	for i < len(s) {
		switch {
		case j < len(p) && p[j] == '%':
			star, mark = j, i
			j++
		case j < len(p) && (p[j] == '_' || p[j] == s[i]):
			i++
			j++
		case star >= 0:
			mark++
			i, j = mark, star+1
		default:
			return false
		}
	}

	for j < len(p) && p[j] == '%' {
		j++
	}

	return j == len(p)
}
