// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package annotation

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Stickiness methods in CloudStack's words.
const (
	LBCookie    = "LbCookie"
	AppCookie   = "AppCookie"
	SourceBased = "SourceBased"
)

// Stickiness asks that a client's connections go to one node.
type Stickiness struct {
	Method string            `json:"method"`
	Params map[string]string `json:"params,omitempty"` // a flag has the value "true"
}

// Equal reports whether two settings are the same; nil means no stickiness.
func (s *Stickiness) Equal(o *Stickiness) bool {
	if s == nil || o == nil {
		return s == o
	}
	return strings.EqualFold(s.Method, o.Method) && maps.Equal(s.Params, o.Params)
}

// stickinessMethod is one method with the options that CloudStack knows for it.
type stickinessMethod struct {
	word, method string
	options      []stickinessOption
	flags        []string
}

// stickinessOption is an option with a value.
type stickinessOption struct {
	name, allowed string
	// pattern matches the values that CloudStack and HAProxy take. CloudStack writes a value into a line of the
	// router's haproxy.cfg without escaping it. HAProxy refuses the whole file if one line is wrong: the router then
	// takes no change of any rule of the network. A pattern therefore matches no character that has a meaning in
	// haproxy.cfg or in CloudStack's database column (name=value&name=value): blanks, quotes, #, \, $, {}, = and &.
	pattern string
	// accepts checks what a pattern cannot check; it may be nil.
	accepts func(value string) bool
}

const dnsLabel = `[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?`

// HAProxy keeps times as 32 bit integers of milliseconds, some 24 days, and refuses longer ones. A table of a million
// entries takes some 50 MB of the router's memory.
var (
	optionCookie = stickinessOption{"cookie-name", "1 to 64 of A-Z a-z 0-9 _ . -", `[A-Za-z0-9_.-]{1,64}`, nil}
	optionDomain = stickinessOption{"domain", "a DNS name, which may start with a dot",
		`[.]?` + dnsLabel + `([.]` + dnsLabel + `)*`, func(v string) bool { return len(v) <= 253 }}
	optionMode     = stickinessOption{"mode", "insert, rewrite or prefix", `(insert|rewrite|prefix)`, nil}
	optionURLMode  = stickinessOption{"mode", "path-parameters or query-string", `(path-parameters|query-string)`, nil}
	optionHoldTime = stickinessOption{"holdtime", "1s to 24d: a number and one of s m h d", `[1-9][0-9]{0,6}[smhd]`,
		withinTimer}
	optionExpire = stickinessOption{"expire", "1s to 24d: a number and one of s m h d", `[1-9][0-9]{0,6}[smhd]`,
		withinTimer}
	optionLength    = stickinessOption{"length", "1 to 9999", `[1-9][0-9]{0,3}`, nil}
	optionTableSize = stickinessOption{"tablesize", "1k to 1024k, or 1m", `([1-9][0-9]{0,3}k|1m)`, withinTable}
)

var stickinessMethods = []stickinessMethod{
	{"lb-cookie", LBCookie, []stickinessOption{optionCookie, optionDomain, optionMode},
		[]string{"indirect", "nocache", "postonly"}},
	{"app-cookie", AppCookie, []stickinessOption{optionCookie, optionHoldTime, optionLength, optionURLMode},
		[]string{"prefix", "request-learn"}},
	{"source", SourceBased, []stickinessOption{optionExpire, optionTableSize}, nil},
}

func withinTimer(value string) bool {
	last := len(value) - 1
	n, err := strconv.Atoi(value[:last])
	seconds := map[byte]int{'s': 1, 'm': 60, 'h': 3600, 'd': 86400}[value[last]]
	return err == nil && n*seconds <= 24*86400
}

func withinTable(value string) bool {
	n, err := strconv.Atoi(value[:len(value)-1])
	return err == nil && n <= 1024
}

// stickinessOptionPattern matches one option of any method, for the API server.
func stickinessOptionPattern() string {
	var parts []string
	for _, m := range stickinessMethods {
		for _, o := range m.options {
			parts = append(parts, o.name+`[ ]*=[ ]*`+o.pattern)
		}
		for _, flag := range m.flags {
			parts = append(parts, flag+`([ ]*=[ ]*true)?`)
		}
	}
	slices.Sort(parts)
	return `^(` + strings.Join(slices.Compact(parts), `|`) + `)$`
}

func stickinessAllowed() string {
	var parts []string
	for _, m := range stickinessMethods {
		var names []string
		for _, o := range m.options {
			names = append(names, o.name+"=… ("+o.allowed+")")
		}
		parts = append(parts, m.word+": "+strings.Join(append(names, m.flags...), ", "))
	}
	return strings.Join(parts, "; ")
}

func (p *parser) stickiness() *Stickiness {
	options, _ := p.value(StickinessOptions)
	value, set := p.value(StickinessMethod)
	word := strings.ToLower(value)
	if !set || word == "none" {
		if options != "" {
			p.warnings = append(p.warnings, StickinessOptions+" has no effect without "+StickinessMethod)
			p.stickinessOptions(options, stickinessMethods...)
		}
		return nil
	}

	at := slices.IndexFunc(stickinessMethods, func(m stickinessMethod) bool { return m.word == word })
	if at < 0 {
		p.wrong(StickinessMethod, "")
		return nil
	}

	m := stickinessMethods[at]
	if options == "" {
		return &Stickiness{Method: m.method, Params: map[string]string{}}
	}

	params, ok := p.stickinessOptions(options, m)
	if !ok {
		return nil
	}

	if params["mode"] == "rewrite" && params["indirect"] != "" {
		p.wrong(StickinessOptions, "mode=rewrite and indirect exclude each other")
		return nil
	}

	return &Stickiness{Method: m.method, Params: params}
}

// stickinessOptions parses options. Each must be an option of one of the methods.
func (p *parser) stickinessOptions(options string, methods ...stickinessMethod) (map[string]string, bool) {
	out := map[string]string{}
	for _, item := range strings.Split(options, ",") {
		item = strings.TrimSpace(item)
		name, value, hasValue := strings.Cut(item, "=")
		name, value = strings.TrimRight(name, " "), strings.TrimLeft(value, " ")
		if !hasValue {
			value = "true"
		}
		if !slices.ContainsFunc(methods, func(m stickinessMethod) bool { return m.takes(name, value, hasValue) }) {
			p.wrong(StickinessOptions, fmt.Sprintf("%q is not an option of %s", item, methodWords(methods)))
			return nil, false
		}
		out[name] = value
	}
	return out, true
}

// takes reports whether the method has the option, and the value is safe.
func (m *stickinessMethod) takes(name, value string, hasValue bool) bool {
	if slices.Contains(m.flags, name) {
		return value == "true"
	}
	at := slices.IndexFunc(m.options, func(o stickinessOption) bool { return o.name == name })
	if at < 0 || !hasValue {
		return false
	}
	o := m.options[at]
	fits, _ := regexp.MatchString(`\A(?:`+o.pattern+`)\z`, value) // the pattern is valid
	return fits && (o.accepts == nil || o.accepts(value))
}

func methodWords(methods []stickinessMethod) string {
	words := make([]string, 0, len(methods))
	for i := range methods {
		words = append(words, methods[i].word)
	}
	return strings.Join(words, ", ")
}
