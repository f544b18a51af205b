"""Addresses under /accounts/: our own, and those of django-allauth that the board uses."""

from allauth.account import views as allauth
from allauth.socialaccount import urls as social
from allauth.socialaccount.providers.github import urls as github
from allauth.socialaccount.providers.openid_connect import views as openid_connect
from django.conf import settings
from django.urls import include, path, re_path

from leaderboard.people.views import accounts

urlpatterns = [
    path("", accounts.account, name="account"),
    path("tokens/", accounts.tokens, name="tokens"),
    path("tokens/<int:pk>/revoke/", accounts.revoke_token, name="revoke_token"),
    path("signup/", accounts.sign_up, name="account_signup"),
    path("login/", allauth.login, name="account_login"),
    path("logout/", allauth.logout, name="account_logout"),
    path("inactive/", allauth.account_inactive, name="account_inactive"),
    path("email/", allauth.email, name="account_email"),
    path("confirm-email/", allauth.email_verification_sent, name="account_email_verification_sent"),
    re_path(r"^confirm-email/(?P<key>[-:\w]+)/$", allauth.confirm_email, name="account_confirm_email"),
    path("password/change/", allauth.password_change, name="account_change_password"),
    path("password/set/", allauth.password_set, name="account_set_password"),
    path("password/reset/", allauth.password_reset, name="account_reset_password"),
    path("password/reset/done/", allauth.password_reset_done, name="account_reset_password_done"),
    re_path(
        r"^password/reset/key/(?P<uidb36>[0-9A-Za-z]+)-(?P<key>.+)/$",
        allauth.password_reset_from_key,
        name="account_reset_password_from_key",
    ),
    path("password/reset/key/done/", allauth.password_reset_from_key_done, name="account_reset_password_from_key_done"),
    path("elsewhere/", include(social.urlpatterns)),
    path("oidc/<slug:provider_id>/login/", accounts.log_in_elsewhere, name="openid_connect_login"),
    path("oidc/<slug:provider_id>/login/callback/", openid_connect.callback, name="openid_connect_callback"),
]
if "github" in settings.SOCIALACCOUNT_PROVIDERS:  # its views fail without a client
    urlpatterns.append(path("", include(github.urlpatterns)))
