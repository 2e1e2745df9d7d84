package configmap

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-cni/holdfast/chaining"
)

const foreignList = `{"cniVersion":"0.3.1","name":"cilium","plugins":[{"type":"cilium-cni","mtu":9001}]}`

func request(t *testing.T, change func(*Request)) Request {
	r := Request{Cilium: cilium(), Name: DefaultConfigMap, Release: "holdfast/hf", Plugin: entry(t, plugin), PluginObject: "ConfigMap holdfast/hf-holdfast"}
	if change != nil {
		change(&r)
	}
	return r
}

// written is the ConfigMap that a plan leads to, as the API server would return it.
func written(t *testing.T, r Request) *corev1.ConfigMap {
	t.Helper()
	plan := Make(r)
	if plan.Want == nil {
		t.Fatalf("no ConfigMap: %v", plan.Findings)
	}
	cm := plan.Want.DeepCopy()
	cm.UID = "1"
	return cm
}

func foreign(text string) *corev1.ConfigMap {
	cm := &corev1.ConfigMap{Data: map[string]string{DefaultKey: text}}
	cm.Namespace, cm.Name = "kube-system", DefaultConfigMap
	return cm
}

func TestMakeDecidesWhoseTheConfigMapIs(t *testing.T) {
	other := "holdfast/other"
	tests := map[string]struct {
		change func(*Request)
		cause  Cause
		wants  bool
		ids    []string
	}{
		"C1 there is none":         {nil, Created, true, []string{}},
		"C1 it is as it must be":   {func(r *Request) { r.Existing = written(t, request(t, nil)) }, Unchanged, true, []string{}},
		"C1 plugin.json changed":   {func(r *Request) { r.Existing = written(t, *r); r.Plugin = entry(t, `{"type":"x"}`) }, Updated, true, []string{}},
		"C1 somebody edited it":    {func(r *Request) { r.Existing = written(t, *r); r.Existing.Data[DefaultKey] = "{}" }, Repaired, true, []string{}},
		"C1 somebody took the key": {func(r *Request) { r.Existing = written(t, *r); delete(r.Existing.Data, DefaultKey) }, Repaired, true, []string{}},
		"C1 somebody deleted it":   {func(r *Request) { r.KnownUID = "1" }, Repaired, true, []string{}},
		"C1 its marks were taken":  {func(r *Request) { r.Existing = written(t, *r); r.KnownUID = "1"; r.Existing.Labels = nil }, Repaired, true, []string{}},
		"C1 edited together with its digest": {func(r *Request) {
			r.Existing = written(t, *r)
			r.LastGood = Make(*r).List
			r.Existing.Data[DefaultKey] = foreignList
			r.Existing.Annotations[DigestAnnotation] = Digest([]byte(foreignList))
		}, Repaired, true, []string{}},
		"C1 a released one is taken":                     {func(r *Request) { r.Existing = written(t, request(t, func(r *Request) { r.Leaving = true })) }, Updated, true, []string{}},
		"C2 a foreign one":                               {func(r *Request) { r.Existing = foreign(foreignList) }, Unchanged, false, []string{"ConfigMapForeign"}},
		"C2 a foreign one, adopted by value":             {func(r *Request) { r.Existing = foreign(foreignList); r.Adopt = true }, Adopted, true, []string{}},
		"C2 a foreign one, adopted by annotation":        {func(r *Request) { r.Existing = foreign(foreignList); consent(r.Existing) }, Adopted, true, []string{}},
		"C2 a foreign one that is no list, with consent": {func(r *Request) { r.Existing = foreign("{"); r.Adopt = true }, Unchanged, false, []string{"ListInvalid"}},
		"C2 a foreign one without the key": {func(r *Request) { r.Existing = foreign(""); r.Existing.Data = map[string]string{"x": "y"} }, Unchanged, false,
			[]string{"ConfigMapForeign", "ConfigMapKeyDiffers"}},
		"C2 another release's": {func(r *Request) { r.Existing = written(t, request(t, func(r *Request) { r.Release = other })) }, Unchanged, false, []string{"ConfigMapForeign"}},
		"C2 another release's, and a value is no consent": {func(r *Request) {
			r.Existing = written(t, request(t, func(r *Request) { r.Release = other }))
			r.Adopt = true
		}, Unchanged, false, []string{"ConfigMapForeign"}},
		"C2 another release's, given away": {func(r *Request) {
			r.Existing = written(t, request(t, func(r *Request) { r.Release = other }))
			consent(r.Existing)
		}, Adopted, true, []string{}},
		"C2 a deleted one that somebody else made anew": {func(r *Request) { r.KnownUID = "1"; r.Existing = foreign(foreignList); r.Existing.UID = "2" }, Unchanged, false, []string{"ConfigMapForeign"}},
		"C8 an adopted list of another name": {func(r *Request) {
			r.Existing = foreign(strings.Replace(foreignList, `"cilium"`, `"mine"`, 1))
			r.Adopt = true
		}, Adopted, true, []string{"ListNameDiffers"}},
		"an adopted list with another plugin first": {func(r *Request) {
			r.Existing = foreign(strings.Replace(foreignList, `[{`, `[{"type":"ptp"},{`, 1))
			r.Adopt = true
		}, Adopted, true, []string{"ListOrderDiffers"}},
		"an adopted list without Cilium": {func(r *Request) {
			r.Existing = foreign(strings.Replace(foreignList, "cilium-cni", "ptp", 1))
			r.Adopt = true
		}, Unchanged, false, []string{"ListInvalid"}},
		"C9 leaving":               {func(r *Request) { r.Existing = written(t, *r); r.Leaving = true }, Let, true, []string{}},
		"C9 leaving a foreign one": {func(r *Request) { r.Existing = foreign(foreignList); r.Leaving = true }, Unchanged, false, []string{}},
		"C9 leaving with a plugin.json that is broken": {func(r *Request) { r.Existing = written(t, *r); r.Leaving = true; broken(r) }, Let, true, []string{"PluginInvalid"}},
		"a broken plugin.json: what is there stays":    {func(r *Request) { r.Existing = written(t, *r); broken(r) }, Unchanged, true, []string{"PluginInvalid"}},
		"a broken plugin.json: the last good is put back": {func(r *Request) {
			r.LastGood = Make(*r).List
			r.Existing = written(t, *r)
			r.Existing.Data[DefaultKey] = "x"
			broken(r)
		}, Repaired, true, []string{"PluginInvalid"}},
		"no plugin.json at all":         {func(r *Request) { r.Plugin = nil }, Created, true, []string{"PluginMissing"}},
		"a mode whose list nobody gave": {func(r *Request) { r.Cilium = cilium(KeyChainingMode, "aws-cni") }, Unchanged, false, []string{"ChainingListMissing"}},
		"a mode whose list nobody gave, later on: the list that is there stays": {func(r *Request) {
			r.Existing = written(t, *r)
			r.Cilium = cilium(KeyChainingMode, "aws-cni")
		}, Unchanged, true, []string{"ChainingListMissing"}},
		"C9 leaving in a mode whose list nobody gave": {func(r *Request) {
			r.Existing = written(t, *r)
			r.Cilium, r.Leaving = cilium(KeyChainingMode, "aws-cni"), true
		}, Let, true, []string{}},
		"C2 a foreign one, while plugin.json is broken": {func(r *Request) { r.Existing = foreign(foreignList); r.Adopt = true; broken(r) }, Unchanged, false, []string{"PluginInvalid"}},
		"C2 another release took it over, though we know its UID": {func(r *Request) {
			r.Existing = written(t, request(t, func(r *Request) { r.Release = other }))
			r.KnownUID = "1"
		}, Unchanged, false, []string{"ConfigMapForeign"}},
		"C1 the mark of what was adopted was taken": {func(r *Request) {
			r.Existing = foreign(foreignList)
			r.Adopt = true
			plan := Make(*r)
			r.Base, r.LastGood, r.Existing = plan.Base, plan.List, written(t, *r)
			delete(r.Existing.Annotations, AdoptedAnnotation)
		}, Repaired, true, []string{}},
		"C3 a new start, by an edit with consent": {func(r *Request) {
			r.Existing = written(t, *r)
			r.Existing.Data[DefaultKey] = foreignList
			consent(r.Existing)
		}, Adopted, true, []string{}},
		"C3 what lies under a former key is no list": {func(r *Request) {
			r.Existing = written(t, request(t, func(r *Request) { r.Existing = foreign(foreignList); r.Adopt = true }))
			r.Existing.Data[DefaultKey] = "x"
			r.Existing.Annotations[DigestAnnotation] = Digest([]byte("x"))
			r.Cilium = cilium(KeyReadConf, "/tmp/cni-configuration/other")
		}, Updated, true, []string{}},
		"a key that can be none": {func(r *Request) { r.Cilium = cilium(KeyReadConf, "/") }, Created, true, []string{}},
		"a plugin.json that is Cilium's own, later on: the last good list is put back": {func(r *Request) {
			r.LastGood, r.KnownUID = Make(*r).List, "1"
			r.Plugin = entry(t, `{"type":"cilium-cni"}`)
		}, Repaired, true, []string{"ListInvalid"}},
		"a mode that Cilium does not know": {func(r *Request) { r.Cilium = cilium(KeyChainingMode, "x") }, Unchanged, false, []string{"ChainingModeUnknown"}},
		"a mode whose list somebody gave": {func(r *Request) {
			r.Cilium = cilium(KeyChainingMode, "generic-veth")
			r.Existing = foreign(foreignList)
			r.Adopt = true
		}, Adopted, true, []string{}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			plan := Make(request(t, test.change))
			if plan.Cause != test.cause || (plan.Want != nil) != test.wants {
				t.Errorf("cause %q, want %q; ConfigMap %v, want one: %v", plan.Cause, test.cause, plan.Want, test.wants)
			}
			if diff := cmp.Diff(test.ids, brief(plan.Findings)); diff != "" {
				t.Errorf("%s\n%v", diff, plan.Findings)
			}
			if plan.Want == nil {
				return
			}
			list, err := chaining.Parse([]byte(plan.Want.Data[plan.Key]))
			if err != nil || len(list.Find(ciliumType)) == 0 {
				t.Errorf("a broken list: %v", err)
			}
			if plan.Cause == Let && len(list.Find("holdfast-cni")) > 0 {
				t.Errorf("left with our entry in the list: %s", list.Bytes())
			}
		})
	}
}

func consent(cm *corev1.ConfigMap) {
	if cm.Annotations == nil {
		cm.Annotations = map[string]string{}
	}
	cm.Annotations[AdoptAnnotation] = "true"
}

func broken(r *Request) { r.Plugin, r.PluginErr = nil, errors.New("plugin.json: broken") }

// C2: consent holds for one take-over, or two releases would take it from each other for ever.
func TestConsentIsUsedUp(t *testing.T) {
	cm := foreign(foreignList)
	consent(cm)
	plan := Make(request(t, func(r *Request) { r.Existing = cm }))
	if got := plan.Want.Annotations[AdoptAnnotation]; got != "accepted" {
		t.Errorf("the annotation is %q, want accepted", got)
	}
	if plan.Want.Annotations[AdoptedAnnotation] != "true" || plan.Base == nil {
		t.Error("what was adopted is not remembered")
	}
}

// C3, C9: an adopted list comes back as it was, byte for byte, also when the memory of it was lost.
func TestAdoptedListComesBackWhenLeaving(t *testing.T) {
	adopted := request(t, func(r *Request) { r.Existing = foreign(foreignList); r.Adopt = true })
	plan := Make(adopted)
	for name, base := range map[string]*chaining.List{"remembered": plan.Base, "forgotten": nil} {
		leaving := Make(request(t, func(r *Request) {
			r.Existing, r.Base, r.Leaving = written(t, adopted), base, true
		}))
		if got := leaving.Want.Data[DefaultKey]; got != foreignList {
			t.Errorf("%s: got %s", name, got)
		}
		if leaving.Want.Annotations[ReleaseAnnotation] != "" {
			t.Errorf("%s: the release still owns it", name)
		}
	}
}

// C3: the list is under the key that the cluster's read-cni-conf names.
func TestKeyFollowsReadConf(t *testing.T) {
	plan := Make(request(t, func(r *Request) { r.Cilium = cilium(KeyReadConf, "/x/mine.conflist") }))
	if plan.Key != "mine.conflist" || len(plan.Want.Data) != 1 {
		t.Errorf("key %q, data %v", plan.Key, plan.Want.Data)
	}
}

// C9: whatever was ours is out of the list when leaving, also what a former plugin.json put there.
func TestLeavingTakesOutWhatEverWasOurs(t *testing.T) {
	twice := `{"cniVersion":"0.3.1","name":"cilium","plugins":[{"type":"cilium-cni","mtu":9001},{"type":"holdfast-cni","x":1},{"type":"holdfast-cni","x":2}]}`
	adopted := request(t, func(r *Request) { r.Existing = foreign(twice); r.Adopt = true })
	changed := request(t, func(r *Request) { r.Existing, r.Plugin = written(t, adopted), entry(t, `{"type":"other-cni"}`) })
	tests := map[string]func(*Request){
		"adopted with ours in it twice":                         func(r *Request) { r.Existing = written(t, adopted) },
		"the same, plugin.json broken and everything forgotten": func(r *Request) { r.Existing = written(t, adopted); broken(r) },
		"the plugin's type changed":                             func(r *Request) { r.Existing, r.Plugin = written(t, changed), entry(t, `{"type":"other-cni"}`) },
		"the key changed": func(r *Request) {
			r.Existing = written(t, adopted)
			r.Cilium = cilium(KeyReadConf, "/tmp/cni-configuration/other")
		},
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			r := request(t, change)
			r.Leaving = true
			plan := Make(r)
			if diff := cmp.Diff(foreignList, plan.Want.Data[plan.Key]); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A finding's command is safe to paste, whatever the cluster's objects hold.
func TestFixesQuoteWhatComesFromTheCluster(t *testing.T) {
	c := cilium(KeySocketLB, "true")
	c.ConfigMaps[0].Annotations["meta.helm.sh/release-name"] = "x; touch y #"
	got := Check(c, expect)
	if len(got) != 1 || !strings.Contains(got[0].Fix.Command, `helm upgrade 'x; touch y #' cilium/cilium`) {
		t.Errorf("got %v", got)
	}
	if quote("it's") != `'it'\''s'` {
		t.Error(quote("it's"))
	}
}
