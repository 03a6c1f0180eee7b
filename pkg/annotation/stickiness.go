// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package annotation

import (
	"maps"
	"slices"
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

// Equal compares two; nil is none.
func (s *Stickiness) Equal(o *Stickiness) bool {
	if s == nil || o == nil {
		return s == o
	}
	return strings.EqualFold(s.Method, o.Method) && maps.Equal(s.Params, o.Params)
}

// stickinessMethod is one method with the options that CloudStack knows for it.
type stickinessMethod struct {
	word, method string
	options      []string
	flags        []string
}

// cookieModes are those of HAProxy's directive cookie. CloudStack passes any word on to the router, whose HAProxy then
// takes no change of any rule of the network.
var cookieModes = []string{"insert", "rewrite", "prefix"}

var stickinessMethods = []stickinessMethod{
	{"lb-cookie", LBCookie, []string{"cookie-name", "domain", "mode"}, []string{"indirect", "nocache", "postonly"}},
	{"app-cookie", AppCookie, []string{"cookie-name", "holdtime", "length", "mode"}, []string{"prefix", "request-learn"}},
	{"source", SourceBased, []string{"expire", "tablesize"}, nil},
}

func stickinessAllowed() string {
	var parts []string
	for _, m := range stickinessMethods {
		var names []string
		for _, o := range m.options {
			value := "…"
			if m.method == LBCookie && o == "mode" {
				value = strings.Join(cookieModes, "|")
			}
			names = append(names, o+"="+value)
		}
		parts = append(parts, m.word+": "+strings.Join(append(names, m.flags...), ", "))
	}
	return strings.Join(parts, "; ")
}

func (p *parser) stickiness() *Stickiness {
	options, haveOptions := p.svc.Annotations[StickinessOptions]
	haveOptions = haveOptions && strings.TrimSpace(options) != ""
	value, set := p.svc.Annotations[StickinessMethod]
	word := strings.ToLower(strings.TrimSpace(value))
	if !set || word == "none" {
		if haveOptions {
			p.warnings = append(p.warnings, StickinessOptions+" has no effect without "+StickinessMethod)
		}
		return nil
	}
	at := slices.IndexFunc(stickinessMethods, func(m stickinessMethod) bool { return m.word == word })
	if at < 0 {
		p.refuse(StickinessMethod, value, "", allowed(StickinessMethod))
		return nil
	}
	m := stickinessMethods[at]
	if m.method == AppCookie {
		p.warnings = append(p.warnings, StickinessMethod+": app-cookie: the HAProxy of virtual routers has not had it since 1.6 and then takes "+
			"no change of any rule of the network; use lb-cookie")
	}
	out := &Stickiness{Method: m.method, Params: map[string]string{}}
	if !haveOptions {
		return out
	}
	for _, item := range strings.Split(options, ",") {
		name, v, hasValue := strings.Cut(strings.TrimSpace(item), "=")
		name, v = strings.TrimSpace(name), strings.TrimSpace(v)
		switch {
		case slices.Contains(m.flags, name) && (!hasValue || v == "true"):
			out.Params[name] = "true"
		case slices.Contains(m.options, name) && v != "" && !strings.ContainsAny(v, " \t\r\n"):
			out.Params[name] = v
		default:
			p.refuse(StickinessOptions, options, "not an option of "+word+": "+strings.TrimSpace(item), allowed(StickinessOptions))
			return nil
		}
	}
	if why := m.breaks(out.Params); why != "" {
		p.refuse(StickinessOptions, options, why, allowed(StickinessOptions))
		return nil
	}
	return out
}

// breaks tells why a router could not take the options; "" when it can.
func (m *stickinessMethod) breaks(params map[string]string) string {
	mode, set := params["mode"]
	switch {
	case m.method != LBCookie || !set:
		return ""
	case !slices.Contains(cookieModes, mode):
		return "not a mode of a router's cookie: " + mode
	case mode == "rewrite" && params["indirect"] != "":
		return "mode=rewrite and indirect exclude each other"
	}
	return ""
}
