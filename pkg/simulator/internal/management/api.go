// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package management

import (
	"sort"

	"github.com/csccm/csccm/pkg/simulator/internal/catalogue"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

type apiView struct {
	Name     string         `json:"name"`
	Since    string         `json:"since,omitempty"`
	IsAsync  bool           `json:"isasync"`
	Params   []apiParamView `json:"params"`
	Response []apiFieldView `json:"response"`
}

type apiParamView struct {
	Name     string `json:"name"`
	Type     string `json:"type"`
	Length   int    `json:"length"`
	Required bool   `json:"required"`
	Since    string `json:"since,omitempty"`
}

type apiFieldView struct {
	Name     string         `json:"name,omitempty"`
	Type     string         `json:"type,omitempty"`
	Response []apiFieldView `json:"response,omitempty"`
}

// listAPIs returns the commands that the caller's role allows, each with the parameters that the caller may use.
func listAPIs(c *wire.Call) (any, error) {
	role := c.Caller.Account.Role
	var out []*catalogue.API
	for i := range c.Server.Cat.APIs {
		a := &c.Server.Cat.APIs[i]
		if role.Allows(a) && c.St.Registered(a) && (!c.Has("name") || c.Str("name") == a.Name) {
			out = append(out, a)
		}
	}

	if len(out) == 0 {
		return nil, wire.Errf(wire.CodeInternal, wire.CSGeneric,
			"Api Discovery plugin was unable to find an api by that name or process any apis")
	}

	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	admin := c.Caller.RootAdmin()
	return wire.Whole("api", out, func(a *catalogue.API) apiView {
		v := apiView{
			Name:     a.Name,
			Since:    a.Since,
			IsAsync:  a.Async,
			Params:   []apiParamView{},
			Response: fieldsOf(c.Server.Cat, a.Shape),
		}

		for j := range a.Params {
			p := &a.Params[j]
			if !p.Admin || admin {
				v.Params = append(v.Params,
					apiParamView{
						Name:     p.Name,
						Type:     p.Type,
						Length:   p.MaxLength(),
						Required: p.Required,
						Since:    p.Since,
					})
			}
		}

		return v
	}), nil
}

// fieldsOf returns the fields of an answer, with nested objects expanded.
func fieldsOf(cat *catalogue.Catalogue, n int) []apiFieldView {
	out := make([]apiFieldView, 0, len(cat.Shapes[n]))
	for _, f := range cat.Shapes[n] {
		v := apiFieldView{Name: f.Name, Type: f.Type}
		if f.Shape != nil {
			v.Response = fieldsOf(cat, *f.Shape)
		}
		out = append(out, v)
	}
	return out
}

// listCapabilities returns one object, without a count.
func listCapabilities(c *wire.Call) (any, error) {
	on := c.St.BoolSetting
	v := map[string]any{
		"securitygroupsenabled":                        false,
		"dynamicrolesenabled":                          true,
		"cloudstackversion":                            c.St.Version,
		"userpublictemplateenabled":                    true,
		"supportELB":                                   "false",
		"projectinviterequired":                        false,
		"allowusercreateprojects":                      on("allow.user.create.projects"),
		"customdiskofferingminsize":                    1,
		"customdiskofferingmaxsize":                    1024,
		"regionsecondaryenabled":                       false,
		"kvmsnapshotenabled":                           true,
		"allowuserviewdestroyedvm":                     on("allow.user.view.destroyed.vm"),
		"allowuserexpungerecovervm":                    on("allow.user.expunge.recover.vm"),
		"allowuserexpungerecovervolume":                true,
		"allowuserviewalldomainaccounts":               on("allow.user.view.all.domain.accounts"),
		"allowuserforcestopvm":                         true,
		"kubernetesserviceenabled":                     on("cloud.kubernetes.service.enabled"),
		"kubernetesclusterexperimentalfeaturesenabled": on("cloud.kubernetes.cluster.experimental.features.enabled"),
		"customhypervisordisplayname":                  "Custom",
		"defaultuipagesize":                            20,
		"instancesstatsretentiontime":                  720,
		"instancesstatsuseronly":                       false,
		"instancesdisksstatsretentionenabled":          false,
		"instancesdisksstatsretentiontime":             720,
		"sharedfsvmmincpucount":                        2,
		"sharedfsvmminramsize":                         1024,
		"instanceleaseenabled":                         false,
		"dynamicscalingenabled":                        true,
		"additionalconfigenabled":                      false,
	}

	if c.Caller.RootAdmin() {
		v["extensionspath"] = "/usr/share/cloudstack-management/extensions"
	}

	if limit, interval := c.St.Throttling(); limit > 0 {
		v["apilimitmax"], v["apilimitinterval"] = limit, int(interval.Seconds())
	}

	return wire.Object("capability", v), nil
}
