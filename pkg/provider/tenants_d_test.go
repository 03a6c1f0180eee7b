// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// What CloudStack would write unchanged into the router's haproxy.cfg is refused.
func TestTenantDStickinessOptions(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string][2]string{
		"a quote":              {"lb-cookie", `cookie-name="SRV`},
		"a comment":            {"lb-cookie", "cookie-name=SRV#x"},
		"a backslash":          {"lb-cookie", `cookie-name=SRV\`},
		"a semicolon":          {"lb-cookie", "cookie-name=SRV;x"},
		"a variable":           {"lb-cookie", "cookie-name=${HOME}"},
		"a carriage return":    {"lb-cookie", "cookie-name=SRV\rx"},
		"a line":               {"lb-cookie", "cookie-name=SRV\nmode http"},
		"a vertical tab":       {"lb-cookie", "cookie-name=SRV\vx"},
		"a zero":               {"lb-cookie", "cookie-name=SRV\x00"},
		"another script":       {"lb-cookie", "cookie-name=ЅRV"},
		"a long name":          {"lb-cookie", "cookie-name=" + strings.Repeat("x", 5000)},
		"a domain":             {"lb-cookie", "domain=a_b..example"},
		"a domain with quotes": {"lb-cookie", `domain="example.org`},
		"a long domain":        {"lb-cookie", "domain=" + strings.Repeat("x.", 200) + "org"},
		"a mode":               {"lb-cookie", "mode=insert;x"},
		"an expiry":            {"source", "expire=x"},
		"an expiry with text":  {"source", "expire=30m#"},
		"a negative table":     {"source", "tablesize=-1"},
		"a table of text":      {"source", "tablesize=many"},
		"a huge table":         {"source", "tablesize=999999999999999999999"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newTenantEnv(t)
			e.create("attacker/web", []int{80}, annotate(annotation.StickinessMethod, tc[0], annotation.StickinessOptions, tc[1]))
			e.refused("attacker/web", plan.ReasonInvalidAnnotation)
		})
	}
	for name, options := range map[string][2]string{
		"cookie": {"lb-cookie", "cookie-name=SRV_1.a-b,domain=example.org,mode=insert,nocache"},
		"source": {"source", "expire=30m,tablesize=200k"},
	} {
		t.Run("good "+name, func(t *testing.T) {
			t.Parallel()
			e := newTenantEnv(t)
			e.create("attacker/web", []int{80}, annotate(annotation.StickinessMethod, options[0], annotation.StickinessOptions, options[1]))
			e.mustSync("attacker/web")
		})
	}
}

// HAProxy has not had app-cookie since 1.6: one such rule keeps the router from taking any change of the network.
func TestTenantDAppCookieOnAVirtualRouter(t *testing.T) {
	t.Parallel()
	for _, namespace := range []string{attackerNS, trustedNS} {
		e := newTenantEnv(t)
		key := namespace + "/web"
		e.create(key, []int{80}, annotate(annotation.StickinessMethod, "app-cookie", annotation.StickinessOptions, "cookie-name=SRV,holdtime=3h,length=52"))
		e.refused(key, plan.ReasonInvalidAnnotation, plan.ReasonUnsupportedNetwork)
		e.edit(key, unset(annotation.StickinessMethod, annotation.StickinessOptions))
		e.mustSync(key)
		before := e.world()
		e.edit(key, annotate(annotation.StickinessMethod, "app-cookie", annotation.StickinessOptions, "cookie-name=SRV,holdtime=3h,length=52"))
		require.Error(t, e.sync(key), "a running Service")
		e.same(before, "the refused change")
	}
}
