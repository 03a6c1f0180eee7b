// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package annotation

import (
	"cmp"
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
	// pattern matches the values that CloudStack and HAProxy take, except for the limits of tooLarge. CloudStack writes
	// a value into a line of the router's haproxy.cfg without escaping it. HAProxy refuses the whole file if one line
	// is wrong: the router then takes no change of any rule of the network. A pattern therefore matches no character
	// that has a meaning in haproxy.cfg or in CloudStack's database column (name=value&name=value): blanks, quotes, #,
	// \, $, {}, = and &.
	pattern string
}

const dnsLabel = `[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?`

// A table of a million entries takes some 50 MB of the router's memory.
var (
	optionCookie = stickinessOption{"cookie-name", "1 to 64 of A-Z a-z 0-9 _ . -", `[A-Za-z0-9_.-]{1,64}`}
	optionDomain = stickinessOption{"domain", "a DNS name, which may start with a dot",
		`[.]?` + dnsLabel + `([.]` + dnsLabel + `)*`}
	optionMode      = stickinessOption{"mode", "insert, rewrite or prefix", `(insert|rewrite|prefix)`}
	optionURLMode   = stickinessOption{"mode", "path-parameters or query-string", `(path-parameters|query-string)`}
	optionHoldTime  = stickinessOption{"holdtime", "1s to 24d: a number and one of s m h d", `[1-9][0-9]{0,6}[smhd]`}
	optionExpire    = stickinessOption{"expire", "1s to 24d: a number and one of s m h d", `[1-9][0-9]{0,6}[smhd]`}
	optionLength    = stickinessOption{"length", "1 to 9999", `[1-9][0-9]{0,3}`}
	optionTableSize = stickinessOption{"tablesize", "1k to 1024k, or 1m", `([1-9][0-9]{0,3}k|1m)`}
)

var stickinessMethods = []stickinessMethod{
	{"lb-cookie", LBCookie, []stickinessOption{optionCookie, optionDomain, optionMode},
		[]string{"indirect", "nocache", "postonly"}},
	{"app-cookie", AppCookie, []stickinessOption{optionCookie, optionHoldTime, optionLength, optionURLMode},
		[]string{"prefix", "request-learn"}},
	{"source", SourceBased, []stickinessOption{optionExpire, optionTableSize}, nil},
}

// tooLarge reports whether a value that matches the pattern of its option is above a limit of HAProxy or of this
// controller. HAProxy keeps times as 32 bit integers of milliseconds, some 24 days, and refuses longer ones.
func tooLarge(option, value string) bool {
	number, _ := strconv.Atoi(strings.TrimRight(value, "smhdk")) // 0 for a value that is no number with a unit
	switch option {
	case "domain":
		return len(value) > 253
	case "tablesize":
		return number > 1024
	case "holdtime", "expire":
		unit := map[byte]int{'s': 1, 'm': 60, 'h': 3600, 'd': 86400}[value[len(value)-1]]
		return number*unit > 24*86400
	}
	return false
}

// optionPattern matches one option of any of the methods, for Parse and for the API server.
func optionPattern(methods ...stickinessMethod) string {
	var parts []string
	for _, m := range methods {
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

// optionOf matches one option of a method, by the method's word; for none it matches those of all methods.
var optionOf = func() map[string]*regexp.Regexp {
	out := map[string]*regexp.Regexp{"none": regexp.MustCompile(optionPattern(stickinessMethods...))}
	for _, m := range stickinessMethods {
		out[m.word] = regexp.MustCompile(optionPattern(m))
	}
	return out
}()

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
			p.stickinessOptions(options, "none", "lb-cookie, app-cookie, source")
		}
		return nil
	}

	at := slices.IndexFunc(stickinessMethods, func(m stickinessMethod) bool { return m.word == word })
	if at < 0 {
		p.wrong(StickinessMethod, "")
		return nil
	}

	params := p.stickinessOptions(options, word, word)
	if params["mode"] == "rewrite" && params["indirect"] != "" {
		p.wrong(StickinessOptions, "mode=rewrite and indirect exclude each other")
	}
	return &Stickiness{Method: stickinessMethods[at].method, Params: params}
}

// stickinessOptions parses the options of a method; of names the method in an error.
func (p *parser) stickinessOptions(options, word, of string) map[string]string {
	out := map[string]string{}
	if options == "" {
		return out
	}

	for _, item := range strings.Split(options, ",") {
		item = strings.TrimSpace(item)
		name, value, _ := strings.Cut(item, "=")
		name, value = strings.TrimRight(name, " "), strings.TrimLeft(value, " ")
		if !optionOf[word].MatchString(item) || tooLarge(name, value) {
			p.wrong(StickinessOptions, fmt.Sprintf("%q is not an option of %s", item, of))
			break
		}
		out[name] = cmp.Or(value, "true") // a flag may have no value
	}
	return out
}
