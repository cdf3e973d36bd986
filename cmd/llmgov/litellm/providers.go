package litellm

import (
	"regexp"
	"strings"

	"github.com/llmgov/llmgov/tenants"
)

// provider is who serves models.
type provider struct {
	base   string // where its routes begin; "" when only the config can say
	key    string // the variable that LiteLLM takes its key from when the config does not say; with :- where it does without
	kind   string // of upstream; "" is OpenAI's dialect
	family string // the names that * stands for there, if not all
	own    bool   // runs on one's own servers
}

// providers are those that llmgov can call, by LiteLLM's prefix of models.
var providers = map[string]provider{
	"openai":                 {base: "https://api.openai.com/v1", key: "OPENAI_API_KEY"},
	"text-completion-openai": {base: "https://api.openai.com/v1", key: "OPENAI_API_KEY"},
	"azure":                  {base: "${AZURE_API_BASE}", key: "AZURE_API_KEY", kind: tenants.Azure},
	"azure_text":             {base: "${AZURE_API_BASE}", key: "AZURE_API_KEY", kind: tenants.Azure},
	"anthropic":              {base: "https://api.anthropic.com", key: "ANTHROPIC_API_KEY", kind: tenants.Anthropic, family: "claude-*"},
	"custom_openai":          {},
	"openai_like":            {key: "OPENAI_LIKE_API_KEY:-"},
	"litellm_proxy":          {key: "LITELLM_PROXY_API_KEY"},
	"hosted_vllm":            {key: "HOSTED_VLLM_API_KEY:-", own: true},
	"vllm":                   {own: true},
	"lm_studio":              {key: "LM_STUDIO_API_KEY:-", own: true},
	"llamafile":              {own: true},
	"xinference":             {own: true},
	"ollama":                 {base: "http://localhost:11434", own: true},
	"ollama_chat":            {base: "http://localhost:11434", own: true},
	"gemini":                 {base: "https://generativelanguage.googleapis.com/v1beta/openai", key: "GEMINI_API_KEY", family: "gemini-*"},
	"groq":                   {base: "https://api.groq.com/openai/v1", key: "GROQ_API_KEY"},
	"mistral":                {base: "https://api.mistral.ai/v1", key: "MISTRAL_API_KEY"},
	"deepseek":               {base: "https://api.deepseek.com/v1", key: "DEEPSEEK_API_KEY", family: "deepseek-*"},
	"together_ai":            {base: "https://api.together.xyz/v1", key: "TOGETHERAI_API_KEY", family: "*/*"},
	"fireworks_ai":           {base: "https://api.fireworks.ai/inference/v1", key: "FIREWORKS_AI_API_KEY", family: "accounts/*"},
	"openrouter":             {base: "https://openrouter.ai/api/v1", key: "OPENROUTER_API_KEY", family: "*/*"},
	"perplexity":             {base: "https://api.perplexity.ai", key: "PERPLEXITYAI_API_KEY", family: "sonar*"},
	"xai":                    {base: "https://api.x.ai/v1", key: "XAI_API_KEY", family: "grok-*"},
	"cerebras":               {base: "https://api.cerebras.ai/v1", key: "CEREBRAS_API_KEY"},
	"deepinfra":              {base: "https://api.deepinfra.com/v1/openai", key: "DEEPINFRA_API_KEY", family: "*/*"},
	"nvidia_nim":             {base: "https://integrate.api.nvidia.com/v1", key: "NVIDIA_NIM_API_KEY", family: "*/*"},
	"sambanova":              {base: "https://api.sambanova.ai/v1", key: "SAMBANOVA_API_KEY"},
	"moonshot":               {base: "https://api.moonshot.ai/v1", key: "MOONSHOT_API_KEY"},
	"dashscope":              {base: "https://dashscope-intl.aliyuncs.com/compatible-mode/v1", key: "DASHSCOPE_API_KEY"},
}

// foreign are providers that speak no dialect of ours, also where an address is named.
var foreign = setOf("bedrock bedrock_converse sagemaker sagemaker_chat vertex_ai vertex_ai_beta azure_ai cohere cohere_chat replicate " +
	"huggingface watsonx watsonx_text databricks anthropic_text palm triton predibase snowflake oci aleph_alpha nlp_cloud petals maritalk")

func setOf(words string) map[string]bool {
	set := map[string]bool{}
	for word := range strings.FieldsSeq(words) {
		set[word] = true
	}
	return set
}

// others are providers of another dialect; the names that LiteLLM knows them by without a prefix begin so.
var others = map[string]string{"claude-": "anthropic", "gemini-": "vertex_ai", "command-": "cohere"}

// split takes a model of litellm_params apart. A name without a known prefix is OpenAI's.
func split(model string) (name, real string) {
	if name, real, ok := strings.Cut(model, "/"); ok {
		return name, real
	}
	for prefix, name := range others {
		if strings.HasPrefix(model, prefix) {
			return name, model
		}
	}
	return "openai", model
}

// reasons say why something has no counterpart, by the last key of its path or by the path.
var reasons = map[string]string{}

func init() {
	for reason, keys := range map[string]string{
		"llmgov sends upstreams an api_key and nothing else": "azure_ad_token azure_username azure_password tenant_id client_id client_secret " +
			"azure_scope azure_deployment organization extra_headers headers default_headers aws_access_key_id aws_secret_access_key " +
			"aws_region_name vertex_project vertex_location vertex_credentials",
		"bodies are forwarded as they are": "drop_params modify_params additional_drop_params allowed_openai_params temperature max_tokens " +
			"top_p seed extra_body merge_reasoning_content_in_choices",
		"a call goes once to each upstream of its pool, and there is no second round; callers are told when to come back": "num_retries max_retries retry_after retry_policy " +
			"model_group_retry_policy",
		"failing upstreams are left out for a while automatically; see docs/configuration.md, Upstreams": "allowed_fails allowed_fails_policy cooldown_time disable_cooldowns",
		"a call never goes to another model; the upstreams of one pool stand in for each other":          "fallbacks context_window_fallbacks content_policy_fallbacks default_fallbacks enable_pre_call_checks",
		"answers are not cached":                                                            "cache cache_params enable_caching_on_provider_specific_optional_params",
		"callbacks are not supported; metrics are at /metrics":                              "success_callback failure_callback callbacks service_callback service_callbacks callback_settings langfuse_default_tags",
		"calls go to the upstreams of a pool by weight, turn by turn":                       "routing_strategy routing_strategy_args optional_pre_call_checks",
		"calls are not routed or counted by tags":                                           "tags enable_tag_filtering tag_filtering_match_any tag_budget_config default_tags",
		"budgets are of tenants and pools":                                                  "provider_budget_config max_budget budget_duration",
		"limits are not shared between gateways until store is set; see docs/federation.md": "redis_host redis_port redis_password redis_url cache_kwargs use_redis_transaction_buffer",
		"policies are files; there is no database":                                          "database_url database_connection_pool_limit store_model_in_db store_prompts_in_spend_logs proxy_batch_write_at disable_spend_logs",
		"alerts are made from the metrics":                                                  "alerting alerting_threshold alert_types alerting_args spend_report_frequency alert_to_webhook_url",
		"prompts are not looked into":                                                       "guardrails prompts guardrail",
		"set it in the environment of llmgov":                                               "environment_variables",
		"only timeouts for all upstreams, in timeouts":                                      "timeout stream_timeout",
		"a key's limits per model are not supported yet":                                    "model_rpm_limit model_tpm_limit model_max_budget",
		"its start is unknown; write expires":                                               "duration",
		"llmgov only knows what prices says; with --prices, it finds the price":             "base_model",
		"callers are defined in the tenants' files":                                         "enable_jwt_auth litellm_jwtauth custom_auth ui_access_mode allowed_routes user_api_key_cache_ttl",
		"logs have one form":                                                                "set_verbose json_logs turn_off_message_logging redact_user_api_key_info debug detailed_debug",
	} {
		for key := range strings.FieldsSeq(keys) {
			reasons[key] = reason
		}
	}
}

// guards are words in keys of limits, of what shares them, and of checks that callers or answers have to pass.
var guards = regexp.MustCompile(`budget|limit|(^|_)(tpm|rpm)(_|$)|max_parallel|guardrail|allowed_|blocked|custom_auth|callbacks$|redis`)

// weightOfKey says how much it matters that a key is left out.
func weightOfKey(path string) Weight {
	key := path[strings.LastIndexByte(path, '.')+1:]
	_, known := reasons[key]
	switch {
	case guards.MatchString(key):
		return Lost
	case known:
		return Differs
	}
	return Harmless
}

// why is the reason for a path.
func why(path string) string {
	key := path[strings.LastIndexByte(path, '.')+1:]
	if reason, known := reasons[key]; known {
		return reason
	}
	return "has no counterpart"
}
