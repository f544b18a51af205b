from django.urls import path

from leaderboard import views

urlpatterns = [
    path("", views.rankings, name="rankings"),
    path("models/<slug:slug>/", views.model, name="model"),
    path("healthz", views.healthz, name="healthz"),
]
