# provider.sed: brings the source of hashicorp/kubernetes 1.13 to the plugin library that coder/coder is built with and to
# the Kubernetes libraries of the operator, and its resources to what versions 2 and 3 take, so that a template is the same
# for all. build.sh compiles these files of it:
# files: diff_supress_funcs event_helpers options_helpers patch_operations provider validators
# files: resource_kubernetes_config_map resource_kubernetes_deployment resource_kubernetes_persistent_volume_claim
# files: resource_kubernetes_pod resource_kubernetes_secret resource_kubernetes_service resource_kubernetes_service_account
# files: schema_affinity_spec schema_container schema_helpers schema_label_selector schema_metadata
# files: schema_node_selector_term schema_persistent_volume_claim schema_pod_spec schema_pod_template schema_volume_source
# files: structure_hostalias structure_label_selector structure_persistent_volume_claim structure_persistent_volume_spec
# files: structure_service_spec structures structures_affinity structures_container structures_deployment structures_pod
/^\t+"kubernetes_/{
  /resourceKubernetes(ConfigMap|Deployment|PersistentVolumeClaim|Pod|Secret|Service|ServiceAccount)\(\)/!d
  # Since version 2 each has a second name.
  s/^\t+"(kubernetes_[a-z_]+)": +(resource.*)$/&\n\t\t\t"\1_v1": \2/
}

# The plugin library, version 2.
/terraform-plugin-sdk\/terraform"/d
s/hashicorp\/terraform-plugin-sdk\//&v2\//
s/^func Provider\(\) terraform\.ResourceProvider /func Provider() *schema.Provider /
s/CustomizeDiff: func\(diff /CustomizeDiff: func(_ context.Context, diff /

# Kubernetes since 1.23 and 1.29.
s/\bv1\.Handler\b/v1.LifecycleHandler/g
s/flattenResourceRequirements\(in\.Resources\)$/flattenResourceRequirements(v1.ResourceRequirements{Limits: in.Resources.Limits, Requests: in.Resources.Requests})/
s/obj\.Resources = \*resourceRequirements$/obj.Resources = v1.VolumeResourceRequirements{Limits: resourceRequirements.Limits, Requests: resourceRequirements.Requests}/

# What Pod Security "restricted" asks for, as later versions of the provider have it.
/^\t{5}"run_as_non_root": \{/i\
\t\t\t\t\t"seccomp_profile": {Type: schema.TypeList, Optional: true, MaxItems: 1, Elem: &schema.Resource{\
\t\t\t\t\t\tSchema: map[string]*schema.Schema{"type": {Type: schema.TypeString, Required: true}},\
\t\t\t\t\t}},
/^func flattenPodSecurityContext/,/^}/s/^\tif in\.RunAsNonRoot != nil \{/\
\tif in.SeccompProfile != nil {\
\t\tatt["seccomp_profile"] = []interface{}{map[string]interface{}{"type": string(in.SeccompProfile.Type)}}\
\t}\n&/
/^func expandPodSecurityContext/,/^}/s/^\tif v, ok := in\["run_as_non_root"\]/\
\tif v, ok := in["seccomp_profile"].([]interface{}); ok \&\& len(v) > 0 {\
\t\tobj.SeccompProfile = \&v1.SeccompProfile{Type: v1.SeccompProfileType(v[0].(map[string]interface{})["type"].(string))}\
\t}\n&/

# Limits and requests of a container are maps since version 2 of the provider.
/^func resourcesField\(\)/,/^}/{
  /^\t{3,}/d
  s/^\t\t"(limits|requests)": \{/&Type: schema.TypeMap, Optional: true, Computed: true, Elem: \&schema.Schema{Type: schema.TypeString}, DiffSuppressFunc: suppressEquivalentResourceQuantity,/
}
/^func flattenContainerResourceRequirements/,/^}/s/\[\]interface\{\}\{(flattenResourceList\(in\.(Limits|Requests)\))\}/\1/
/^func expandContainerResourceRequirements/,/^}/{
  /^func/!{/^}/!d}
  s/^func.*/&\n\treturn expandResourceRequirements(l)/
}
