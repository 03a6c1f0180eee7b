// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"slices"
	"strings"
)

const templateArch = "x86_64"

// templateView is the API object template.
type templateView struct {
	ID              string     `json:"id"`
	Name            string     `json:"name"`
	DisplayText     string     `json:"displaytext"`
	Public          bool       `json:"ispublic"`
	Created         *timestamp `json:"created"`
	Ready           bool       `json:"isready"`
	PasswordEnabled bool       `json:"passwordenabled"`
	Format          string     `json:"format"`
	Featured        bool       `json:"isfeatured"`
	CrossZones      bool       `json:"crossZones"`
	OSTypeID        string     `json:"ostypeid"`
	OSTypeName      string     `json:"ostypename"`
	Account         string     `json:"account"`
	ZoneID          string     `json:"zoneid"`
	ZoneName        string     `json:"zonename"`
	Status          string     `json:"status,omitempty"`
	Size            int64      `json:"size"`
	PhysicalSize    int64      `json:"physicalsize"`
	TemplateType    string     `json:"templatetype"`
	Hypervisor      string     `json:"hypervisor"`
	Domain          string     `json:"domain"`
	DomainID        string     `json:"domainid"`
	DomainPath      string     `json:"domainpath"`
	Extractable     bool       `json:"isextractable"`
	SSHKeyEnabled   bool       `json:"sshkeyenabled"`
	DynScalable     bool       `json:"isdynamicallyscalable"`
	DirectDownload  bool       `json:"directdownload"`
	DeployAsIs      bool       `json:"deployasis"`
	RequiresHVM     bool       `json:"requireshvm"`
	ForCKS          bool       `json:"forcks"`
	Arch            string     `json:"arch"`
	URL             string     `json:"url,omitempty"`

	Details         map[string]string   `json:"details"`
	DownloadDetails []map[string]string `json:"downloaddetails"`
	Tags            []tagView           `json:"tags"`
	HasAnnotations  bool                `json:"hasannotations"`
}

// templateFilters maps the valid values of templatefilter and isofilter to whether they include the built-in
// templates, which are public, featured and not owned by the caller.
var templateFilters = map[string]bool{
	"featured": true, "self": false, "selfexecutable": false, "sharedexecutable": false, "executable": true, "community": false, "all": true,
}

// templateFilter validates a filter and reports whether it includes the built-in templates.
func (c *call) templateFilter(param string) (bool, error) {
	shows, ok := templateFilters[c.str(param)]
	switch {
	case !ok:
		return false, c.internal(csGeneric, "No enum constant com.cloud.template.VirtualMachineTemplate.TemplateFilter.%s", c.str(param))
	case c.str(param) == "all" && c.caller.account.normal():
		return false, invalid("Filter all can be specified by admin only")
	}
	return shows, nil
}

// templateInZone is a template in one zone: lists have one item per zone.
type templateInZone struct {
	*template
	zone *zone
}

func listTemplates(c *call) (any, error) {
	shows, err := c.templateFilter("templatefilter")
	if err != nil {
		return nil, err
	}
	if _, err := c.ownerScope(c.byID()); err != nil {
		return nil, err
	}
	ids := c.lists["ids"]
	var out []templateInZone
	for _, t := range slices.Backward(c.st.templates.rows) {
		switch {
		case t.removed || !shows && !c.given("id") || !matches(c, "id", t):
		case len(ids) > 0 && !slices.ContainsFunc(ids, func(r ref) bool { return r.obj == any(t) }):
		case c.has("name") && !strings.EqualFold(c.str("name"), t.name):
		case c.has("keyword") && !like(t.name, c.str("keyword")):
		case c.has("hypervisor") && knownHypervisor(c.str("hypervisor")) && !strings.EqualFold(c.str("hypervisor"), "Simulator"):
		case c.has("templatetype") && !strings.EqualFold(c.str("templatetype"), t.typ):
		case c.has("arch") && !strings.EqualFold(c.str("arch"), templateArch):
		case c.has("isready") && !c.boolean("isready"), c.boolean("isvnf"), c.boolean("forcks"):
		case c.given("oscategoryid") && !matches(c, "oscategoryid", c.st.osTypeOf(t).category):
		case c.given("parenttemplateid"), c.given("imagestoreid"), c.given("extensionid"), !t.hasTags(c.tagFilter()):
		default:
			for _, z := range c.st.zones.rows {
				if !z.removed && matches(c, "zoneid", z) {
					out = append(out, templateInZone{t, z})
				}
				if c.boolean("showunique") {
					break
				}
			}
		}
	}
	return page(c, "template", out, c.viewTemplate)
}

// osTypeOf returns the guest operating system of a template.
func (st *state) osTypeOf(t *template) *osType {
	o, _ := st.osTypes.find(func(o *osType) bool { return o.description == t.osName })
	if o == nil {
		return &osType{category: &osCategory{}}
	}
	return o
}

func (c *call) viewTemplate(t templateInZone) templateView {
	root := c.st.root()
	v := templateView{
		ID: t.uuid, Name: t.name, DisplayText: t.display, Public: true, Created: stamp(t.created), Ready: true, Format: t.format, Featured: true,
		CrossZones: true, OSTypeID: t.guestOSID, OSTypeName: t.osName, Account: "system", ZoneID: t.zone.uuid, ZoneName: t.zone.name,
		Size: rootSize, PhysicalSize: rootSize, TemplateType: t.typ, Hypervisor: "Simulator", Domain: root.name, DomainID: root.uuid,
		DomainPath: root.display(), Arch: templateArch, Details: map[string]string{}, DownloadDetails: []map[string]string{}, Tags: viewTags(&t.tagged),
	}
	if c.caller.rootAdmin() {
		v.Status = "Download Complete"
		v.DownloadDetails = append(v.DownloadDetails, map[string]string{
			"datastore": "secondary", "downloadPercent": "100", "downloadState": "DOWNLOADED",
		})
	}
	return v
}

// listIsos answers an empty list, because the simulator has no ISO images.
func listIsos(c *call) (any, error) {
	if c.has("isofilter") {
		if _, err := c.templateFilter("isofilter"); err != nil {
			return nil, err
		}
	}
	if _, err := c.ownerScope(c.byID()); err != nil {
		return nil, err
	}
	return page(c, "iso", nil, func(v *template) *template { return v })
}

type osTypeView struct {
	ID           string `json:"id"`
	CategoryID   string `json:"oscategoryid"`
	CategoryName string `json:"oscategoryname"`
	Name         string `json:"name"`
	Description  string `json:"description"`
	UserDefined  bool   `json:"isuserdefined"`
	ForDisplay   bool   `json:"fordisplay"`
}

func listOSTypes(c *call) (any, error) {
	var out []*osType
	for _, o := range c.st.osTypes.rows {
		switch {
		case !matches(c, "id", o) || !matches(c, "oscategoryid", o.category):
		case c.has("description") && !strings.EqualFold(c.str("description"), o.description):
		case c.has("keyword") && !like(o.description, c.str("keyword")):
		case c.has("fordisplay") && !c.boolean("fordisplay"):
		default:
			out = append(out, o)
		}
	}
	return page(c, "ostype", out, func(o *osType) osTypeView {
		return osTypeView{ID: o.uuid, CategoryID: o.category.uuid, CategoryName: o.category.name, Name: o.description, Description: o.description, ForDisplay: true}
	})
}

type osCategoryView struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	Featured bool   `json:"isfeatured"`
}

func listOSCategories(c *call) (any, error) {
	var out []*osCategory
	for _, o := range osCategories.rows {
		if !matches(c, "id", o) || c.has("name") && !like(o.name, c.str("name")) || c.has("keyword") && !like(o.name, c.str("keyword")) ||
			c.boolean("isfeatured") {
			continue
		}
		out = append(out, o)
	}
	return page(c, "oscategory", out, func(o *osCategory) osCategoryView { return osCategoryView{ID: o.uuid, Name: o.name} })
}

// listDetailOptions answers the details that a VM or template may have.
func listDetailOptions(c *call) (any, error) {
	kind, err := tagType(c.str("resourcetype"))
	if err != nil {
		return nil, err
	}
	typ := kind.name
	options := map[string][]string{}
	switch typ {
	case "UserVm", "Template":
		options["UEFI"] = []string{"LEGACY", "SECURE"}
		options["keyboard"] = []string{"uk", "us", "jp", "fr"}
		options["cpu.corespersocket"] = []string{}
		if c.caller.rootAdmin() || typ == "Template" {
			options["rootdisksize"] = []string{} // users may not set it
		}
	default:
		return nil, invalid("Resource type %s is not supported.", typ)
	}
	type body struct {
		Details map[string][]string `json:"details"`
	}
	return struct {
		Options body `json:"detailoptions"`
	}{body{options}}, nil
}
