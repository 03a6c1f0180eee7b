// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"unicode"

	"sigs.k8s.io/yaml"
)

// DumpOptions selects the content of a dump.
type DumpOptions struct {
	// Secrets includes API keys and other keys. A dump never contains passwords.
	Secrets bool
}

// Dump returns the current world. A simulator that starts from it gives the same answers: ids, states, tags, rules
// and, with Secrets, keys. A dump does not contain jobs, sessions, the ledger or passwords. The object of a running
// job remains unfinished, as after a restart. Users of a dump cannot log in until updateUser sets a password.
func (s *Simulator) Dump(o DumpOptions) (*World, error) {
	faults := s.Faults()
	s.runDue()
	s.mu.RLock()
	defer s.mu.RUnlock()
	rows, err := encodeState(s.st, o)
	if err == nil {
		rows, err = plain(rows)
	}
	if err != nil {
		return nil, fmt.Errorf("dump the world: %w", err)
	}
	w := &World{Version: s.st.version, Settings: s.st.settings, Rows: rows}
	for _, f := range faults {
		w.Faults = append(w.Faults, f.Fault)
	}
	return w, nil
}

// DumpYAML returns Dump as a YAML file that LoadWorld reads.
func (s *Simulator) DumpYAML(o DumpOptions) ([]byte, error) {
	w, err := s.Dump(o)
	if err != nil {
		return nil, err
	}
	text, err := yaml.Marshal(w)
	if err != nil {
		return nil, fmt.Errorf("dump the world: %w", err)
	}
	return text, nil
}

// plain converts the values of rows to the types that reading them from a file produces.
func plain(in rows) (rows, error) {
	text, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	var out rows
	return out, json.Unmarshal(text, &out)
}

// The rows of a dump are generated from the types of the state, so that no kind of object is missing: every table is
// a list of rows, every row an object with the non-zero fields. A reference to a row is "TABLE/ID" with the internal
// id. Objects that are in no table, such as NICs, are in lists with the name of their type and are referred to as
// "TYPE/N".

// How a field is dumped, unless it is plain.
const (
	dumpNot      = "not"      // not dumped: derived from other fields, or in another part of the world
	dumpSecret   = "secret"   // only with DumpOptions.Secrets
	dumpNever    = "never"    // not dumped, but read if a world file has it
	dumpHarmless = "harmless" // the name looks like a secret, but the value is not one
)

// dumpFields are the fields that are not plain, as TYPE.FIELD.
var dumpFields = map[string]string{
	"state.settings": dumpNot, "state.version": dumpNot, "state.jobs": dumpNot, "state.due": dumpNot, "state.running": dumpNot,
	"jobIndex.pending": dumpNot, "jobIndex.done": dumpNot, "state.apiKeys": dumpNot, "networkOffering.rendered": dumpNot,
	"user.apiKey": dumpSecret, "user.secretKey": dumpSecret, "user.password": dumpNever,
	"kubernetesCluster.kubeconfig": dumpSecret, "sslCert.pair": dumpNot,
}

// dumpName returns the name of a type or field in dumps, which starts with a lower-case letter: LBRules is lbRules.
func dumpName(name string) string {
	n := len(name) - len(strings.TrimLeftFunc(name, unicode.IsUpper))
	if rest := name[n:]; n > 1 && rest != "" && rest != "s" && unicode.IsLower(rune(rest[0])) {
		n-- // the last capital starts the next word
	}
	return strings.ToLower(name[:n]) + name[n:]
}

// dumpRule returns how a field of a type is dumped, or "" if it is plain.
func dumpRule(t reflect.Type, f *reflect.StructField) string {
	if f.Type.PkgPath() == "sync" || f.Type.Kind() == reflect.Func {
		return dumpNot
	}
	return dumpFields[dumpName(t.Name())+"."+dumpName(f.Name)]
}

// stateRow is the list with one row for the fields of the state that are not tables.
const stateRow = "state"

// nextField is the field of that row with the next internal id of each table.
const nextField = "next"

// rowTable is a table without its type parameter.
type rowTable interface {
	eachRow(visit func(row any, id int64))
	putRow(row any)
	newRow() any
	nextID() int64
	setNextID(n int64)
}

func (t *table[T]) eachRow(visit func(row any, id int64)) {
	for _, r := range t.rows {
		visit(r, r.ent().id)
	}
}

func (t *table[T]) putRow(row any) {
	r, ok := row.(T)
	if !ok {
		return // cannot happen: newRow created it
	}
	t.rows = append(t.rows, r)
	t.byUUID[strings.ToLower(r.ent().uuid)] = r
}

func (t *table[T]) newRow() any       { return reflect.New(reflect.TypeFor[T]().Elem()).Interface() }
func (t *table[T]) nextID() int64     { return t.next }
func (t *table[T]) setNextID(n int64) { t.next = n }

// stateTables returns the tables of a state by field name, and the names in order.
func stateTables(st *state) (map[string]rowTable, []string) {
	tables, names := map[string]rowTable{}, []string{}
	v := reflect.ValueOf(st).Elem()
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if dumpRule(v.Type(), &f) == dumpNot {
			continue
		}
		if t, ok := open(v.Field(i)).Interface().(rowTable); ok {
			tables[dumpName(f.Name)] = t
			names = append(names, dumpName(f.Name))
		}
	}
	return tables, names
}
