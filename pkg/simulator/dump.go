// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"sigs.k8s.io/yaml"
)

// DumpOptions say what a dump carries.
type DumpOptions struct {
	// Secrets puts API keys and other keys into the dump. Passwords are never in it.
	Secrets bool
}

// Dump returns the world as it is now. A simulator that is started with it
// gives the same answers: same ids, states, tags, rules and, with Secrets,
// keys. Left out are jobs (a running one is as after a restart: its object
// stays half done), sessions, the ledger, and passwords: users of a dump
// cannot log in until updateUser gives them one.
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

// DumpYAML is Dump as a file that LoadWorld reads.
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

// plain turns the values of rows into what reading them from a file gives.
func plain(in rows) (rows, error) {
	text, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	var out rows
	return out, json.Unmarshal(text, &out)
}

// The rows of a dump are made from the state's own types, so that no family of
// objects can be forgotten: every table is a list of rows, every row an object
// with the fields that are not zero. A reference to a row is "TABLE/ID" with
// the internal id; objects that are in no table, such as NICs, come in lists
// by the name of their type and are referred to as "TYPE/N".

// How a field gets into a dump, if it is not plain.
const (
	dumpNot      = "not"      // rebuilt, or said elsewhere in the world
	dumpSecret   = "secret"   // only with DumpOptions.Secrets
	dumpNever    = "never"    // never written; read if somebody writes it into the file
	dumpHarmless = "harmless" // looks like a secret by its name and is none
)

// dumpFields are the fields that are not plain, by type and name.
var dumpFields = map[string]string{
	"state.settings": dumpNot, "state.version": dumpNot, "state.jobs": dumpNot, "state.due": dumpNot, "state.running": dumpNot,
	"jobIndex.pending": dumpNot, "jobIndex.done": dumpNot, "state.apiKeys": dumpNot, "networkOffering.rendered": dumpNot,
	"user.apiKey": dumpSecret, "user.secretKey": dumpSecret, "user.password": dumpNever,
	"kubernetesCluster.kubeconfig": dumpSecret, "sslCert.pair": dumpNot,
}

// dumpRule is how a field of a type gets into a dump; "" if it is plain.
func dumpRule(t reflect.Type, f *reflect.StructField) string {
	if f.Type.PkgPath() == "sync" || f.Type.Kind() == reflect.Func {
		return dumpNot
	}
	return dumpFields[t.Name()+"."+f.Name]
}

// stateRow is the list of the one row with the members of the state that are no tables.
const stateRow = "state"

// nextField is the member of that row with the next internal id of each table.
const nextField = "next"

// rowTable is a table without its type.
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
		return // newRow has made it
	}
	t.rows = append(t.rows, r)
	t.byUUID[strings.ToLower(r.ent().uuid)] = r
}

func (t *table[T]) newRow() any       { return reflect.New(reflect.TypeFor[T]().Elem()).Interface() }
func (t *table[T]) nextID() int64     { return t.next }
func (t *table[T]) setNextID(n int64) { t.next = n }

// stateTables are the tables of a state by the name of their field, and the names in order.
func stateTables(st *state) (map[string]rowTable, []string) {
	tables, names := map[string]rowTable{}, []string{}
	v := reflect.ValueOf(st).Elem()
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if dumpRule(v.Type(), &f) == dumpNot {
			continue
		}
		if t, ok := open(v.Field(i)).Interface().(rowTable); ok {
			tables[f.Name] = t
			names = append(names, f.Name)
		}
	}
	return tables, names
}
